terraform {
  backend "local" {}
}

module "tags" {
  source    = "../../../../modules/tags"
  component = "network"
}

resource "terraform_data" "network" {
  input = { region = "us-east-1", tags = module.tags.all }
}

output "network" { value = terraform_data.network.output.region }
