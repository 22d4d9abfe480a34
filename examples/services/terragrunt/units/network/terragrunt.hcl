include "root" {
  path = find_in_parent_folders("root.hcl")
}

terraform {
  source = "${dirname(find_in_parent_folders("root.hcl"))}/../modules//network"
}

inputs = {
  environment = values.environment
  cidr        = values.cidr
}
