"""Ownership of resource types, reproducible code, output contracts."""
