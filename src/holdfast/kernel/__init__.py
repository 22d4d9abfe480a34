"""What every room may use and nothing else: errors, ids, secrets. Imports nothing of ours."""
