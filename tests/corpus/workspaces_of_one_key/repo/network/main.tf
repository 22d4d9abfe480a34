terraform {
  required_version = "~> 1.10"
  backend "s3" {
    bucket               = "acme-states"
    key                  = "terraform.tfstate"
    encrypt              = true
    use_lockfile         = true
    workspace_key_prefix = "network"
  }
}

output "vpc" {
  value = terraform.workspace
}
