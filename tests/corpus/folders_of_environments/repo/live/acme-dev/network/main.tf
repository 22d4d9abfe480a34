terraform {
  backend "s3" {
    bucket       = "acme-states"
    key          = "dev/network/terraform.tfstate"
    region       = "eu-central-1"
    encrypt      = true
    use_lockfile = true
  }
}

module "network" {
  source = "../../../modules/network"
}
