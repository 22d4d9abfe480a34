"""One module per kind of gate."""
