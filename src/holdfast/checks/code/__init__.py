"""What rules ask about Terraform code: blocks, providers, pins, lock file, names."""
