"""Who owns which resource types, hermetic code, output contracts."""
