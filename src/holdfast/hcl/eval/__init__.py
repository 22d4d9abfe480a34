"""Evaluates HCL as far as possible without running Terraform: values, functions, modules."""
