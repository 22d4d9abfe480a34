"""Policy documents of AWS: reading them, their grammar, and what they allow. Nothing is asked of AWS."""
