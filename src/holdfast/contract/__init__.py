"""The output contract: what stacks promise to give, and whether they do."""
