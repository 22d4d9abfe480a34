"""HCL: the reader, and an evaluator for what is known without running Terraform."""
