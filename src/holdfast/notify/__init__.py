"""Reports for people: Markdown, the pull-request comment, GitHub Actions annotations."""
