terraform {
  required_version = "~> 1.9"
  backend "gcs" {
    bucket = "acme-states"
    prefix = "network-prod"
  }
}

resource "terraform_data" "network" {}
