"""Recognises secrets in code, files, plans, states and the Git history."""
