include "root" {
  path = find_in_parent_folders("root.hcl")
}

terraform {
  source = "${dirname(find_in_parent_folders("root.hcl"))}/../modules//web"
}

dependency "network" {
  config_path  = "../network"
  mock_outputs = { id = "vpc-0" }
}

dependency "api" {
  config_path  = "../api"
  mock_outputs = { url = "https://api.internal" }
}

inputs = {
  environment = values.environment
  network     = dependency.network.outputs.id
  api         = dependency.api.outputs.url
}
