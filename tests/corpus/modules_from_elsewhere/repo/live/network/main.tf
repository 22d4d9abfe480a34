terraform {
  required_version = "~> 1.10"
  backend "s3" {
    bucket       = "acme-states"
    key          = "network/terraform.tfstate"
    encrypt      = true
    use_lockfile = true
  }
}

module "network" {
  source = "git::https://git.example/network.git?ref=v1.2.0"
}

module "subnets" {
  source = "./.terraform/modules/network/modules/subnets"
}
