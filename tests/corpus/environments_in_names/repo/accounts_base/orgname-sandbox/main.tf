terraform {
  required_version = "~> 1.9"
  backend "gcs" {
    bucket = "acme-states"
    prefix = "orgname-sandbox"
  }
}

resource "terraform_data" "account" {}
