"""From a plan to one decision."""
