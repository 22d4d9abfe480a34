terraform {
  required_version = "~> 1.10"
  backend "s3" {
    bucket               = "acme-states"
    key                  = "terraform.tfstate"
    encrypt              = true
    use_lockfile         = true
    workspace_key_prefix = "cluster"
  }
}

data "terraform_remote_state" "network" {
  backend   = "s3"
  workspace = terraform.workspace
  config = {
    bucket               = "acme-states"
    key                  = "terraform.tfstate"
    workspace_key_prefix = "network"
  }
}

output "vpc" {
  value = data.terraform_remote_state.network.outputs.vpc
}
