"""Stacks of other tools as entries of holdfast.yaml: Terragrunt and Atmos."""
