"""The life of one run: claim, apply, journal, outcome."""
