terraform {
  required_version = "~> 1.9"
  backend "gcs" {
    bucket = "acme-states"
    prefix = "network-dev"
  }
}

resource "terraform_data" "network" {}
