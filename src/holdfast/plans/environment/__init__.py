"""What Terraform gets besides the code: environment, credentials, backend; and where a plan then applies."""
