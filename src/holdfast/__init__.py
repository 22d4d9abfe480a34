"""Holdfast: finds what a change touches, plans it, guards it, applies it and proves it."""

__version__ = "0.1.0"
