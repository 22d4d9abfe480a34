include "root" {
  path = find_in_parent_folders("root.hcl")
}

terraform {
  source = "${dirname(find_in_parent_folders("root.hcl"))}/../modules//api"
}

dependency "network" {
  config_path  = "../network"
  mock_outputs = { id = "vpc-0" }
}

dependency "database" {
  config_path  = "../database"
  mock_outputs = { address = "db.internal" }
}

inputs = {
  environment = values.environment
  size        = values.size
  network     = dependency.network.outputs.id
  database    = dependency.database.outputs.address
}
