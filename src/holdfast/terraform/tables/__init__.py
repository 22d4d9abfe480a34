"""Data tables: import ids, stateful types, transient errors, creates refused up front."""
