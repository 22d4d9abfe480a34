"""Telling people: the report of a change as Markdown, the pull-request comment, what GitHub Actions shows."""
