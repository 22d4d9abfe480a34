"""Rego policies: opa or conftest where installed, otherwise regopy in a process of its own."""
