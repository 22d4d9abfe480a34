"""What rules receive and return: repository, modules, stacks, plans; findings and skips."""
