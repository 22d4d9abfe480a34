include "root" {
  path = find_in_parent_folders("root.hcl")
}

terraform {
  source = "${dirname(find_in_parent_folders("root.hcl"))}/../modules//database"
}

dependency "network" {
  config_path  = "../network"
  mock_outputs = { subnet = "10.0.1.0/24" }
}

inputs = {
  environment = values.environment
  size        = values.size
  subnet      = dependency.network.outputs.subnet
}
