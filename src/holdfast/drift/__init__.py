"""Drift: compare reality with states and code, keep findings, and undo what a rule allows."""
