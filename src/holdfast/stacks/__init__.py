"""Discover stacks, select them by change, order them."""
