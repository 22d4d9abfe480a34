terraform {
  backend "s3" {
    bucket       = "acme-states"
    key          = "dev/cluster/terraform.tfstate"
    region       = "eu-central-1"
    encrypt      = true
    use_lockfile = true
  }
}

module "cluster" {
  source = "../../../modules/cluster"
}

data "terraform_remote_state" "network" {
  backend = "s3"
  config = {
    bucket = "acme-states"
    key    = "dev/network/terraform.tfstate"
    region = "eu-central-1"
  }
}
