"""holdfast.yaml: reading, validation, JSON Schema."""
