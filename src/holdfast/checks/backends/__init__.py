"""What rules ask about backends: type, settings, names, remote state."""
