"""Which files a stack reads, so that a changed file selects it."""
