"""The audit log: a hash chain that reveals tampering."""
