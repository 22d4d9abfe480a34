"""States on the server: rules, rows, versions and locks, and their blobs."""
