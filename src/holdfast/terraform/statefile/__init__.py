"""The state file: reading, contents, sensitive values, differences, edits."""
