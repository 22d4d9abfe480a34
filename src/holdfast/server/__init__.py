"""The server: the API and the state backend."""
