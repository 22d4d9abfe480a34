"""The database of the server: PostgreSQL, embedded or elsewhere, its schema and its backups."""
