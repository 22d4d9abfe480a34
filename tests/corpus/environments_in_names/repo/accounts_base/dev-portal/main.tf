terraform {
  required_version = "~> 1.9"
  backend "gcs" {
    bucket = "acme-states"
    prefix = "dev-portal"
  }
}

resource "terraform_data" "account" {}
