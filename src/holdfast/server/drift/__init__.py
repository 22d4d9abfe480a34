"""Drift on the server: the schedule, the looks, their results and their alerts."""
