terraform {
  required_version = "~> 1.9"
  backend "gcs" {
    bucket = "acme-states"
    prefix = "network-test"
  }
}

resource "terraform_data" "network" {}
