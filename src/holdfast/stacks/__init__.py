"""Discover stacks, select them by change, put them in order."""
