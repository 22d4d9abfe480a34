"""What plan, apply, destroy and import have in common."""
