"""One way to show a report per file."""
