terraform {
  required_version = "~> 1.9"
  backend "gcs" {
    bucket = "acme-states"
    prefix = "demo"
  }
}

resource "terraform_data" "demo" {}
