"""Terraform code for the rules: blocks, providers, pins, lock file, names."""
