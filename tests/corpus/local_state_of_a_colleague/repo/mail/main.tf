terraform {
  required_version = "~> 1.9"
  backend "local" {}
}

resource "terraform_data" "mail" {}
