"""How secrets are recognised in code, files, plans, states and history."""
