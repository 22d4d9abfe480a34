"""holdfast.yaml: what the file says (raw) becomes what the program believes (valid)."""
