"""One stack, from source to a plan file: work directory, init, plan, show, saved plan."""
