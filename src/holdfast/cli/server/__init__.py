"""Runs on a server: upload the code, submit, follow, decide."""
