"""The output contract: its schema, and outputs compared with it."""
