"""From a plan to a decision: allow, needs approval, deny. Pure."""
