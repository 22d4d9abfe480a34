"""Secrets, and files that do not belong in Git: HF2xx."""
