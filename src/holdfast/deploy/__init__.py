"""What follows an apply: gates that check the live system."""
