"""What follows an apply: facts, the bootstrap of GitOps, and gates that check the live system."""
