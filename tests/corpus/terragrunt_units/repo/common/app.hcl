locals {
  size = 1
}

terraform {
  source = "${get_repo_root()}/modules//app"

  extra_arguments "common" {
    commands           = get_terraform_commands_that_need_vars()
    optional_var_files = ["${get_terragrunt_dir()}/../common.tfvars", "${get_terragrunt_dir()}/none.tfvars"]
  }
}

dependency "network" {
  config_path  = "${get_terragrunt_dir()}/../network"
  mock_outputs = { id = "mock", zones = [] }
}

inputs = {
  network_id = dependency.network.outputs.id
  zones      = dependency.network.outputs.zones
  tags       = { "team" = "x", "braces" = "{a}" }
}
