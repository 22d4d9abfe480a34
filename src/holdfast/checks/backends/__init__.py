"""Backends for the rules: types, settings, names, remote states."""
