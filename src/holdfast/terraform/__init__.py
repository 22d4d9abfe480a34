"""Everything that is specific to Terraform: engines, command lines, plan, state, work directories."""
