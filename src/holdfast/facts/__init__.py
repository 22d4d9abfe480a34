"""What GitOps gets after an apply: facts, and encrypted outputs (the bridge)."""
