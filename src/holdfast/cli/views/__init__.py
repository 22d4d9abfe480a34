"""What commands print: changes, checks, states, progress, the pull-request report."""
