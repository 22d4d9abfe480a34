terraform {
  required_version = ">= 1.5"

  backend "local" {}
}

module "tags" {
  source    = "../../../../modules/tags"
  component = "network"
}

resource "terraform_data" "network" {
  input = { region = "us-east-1", tags = module.tags.all }
}

output "network" {
  description = "Network of the region."
  value       = terraform_data.network.output.region
}
