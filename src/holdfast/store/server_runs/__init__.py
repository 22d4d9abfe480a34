"""Runs on the server: rows of changes and runs, how workers claim them, and where their code comes from."""
