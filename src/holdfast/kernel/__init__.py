"""What every package may use: errors, secrets as a type, values."""
