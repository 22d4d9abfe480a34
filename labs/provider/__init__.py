"""A small real Terraform provider to test and demonstrate against; README.md says how to use it."""
