locals {
  env = read_terragrunt_config(find_in_parent_folders("env.hcl"))
}

remote_state {
  backend = "local"
  generate = { path = "backend.tf", if_exists = "overwrite_terragrunt" }
  config = {
    path = "${get_parent_terragrunt_dir()}/../states/${path_relative_to_include()}/terraform.tfstate"
  }
}

generate "versions" {
  path      = "versions_generated.tf"
  if_exists = "overwrite_terragrunt"
  contents  = <<-EOF
    locals {
      owner = "${local.env.locals.owner}"
    }
  EOF
}

inputs = {
  environment = local.env.locals.environment
  unused      = "ignored"
}
