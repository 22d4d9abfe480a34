"""The audit log: a hash chain that shows tampering."""
