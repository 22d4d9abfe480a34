"""What `holdfast check` does: its inputs, the comparison with the base, the run."""
