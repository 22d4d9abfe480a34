"""Drift on the server: when each stack is looked at, and what the last look said."""
