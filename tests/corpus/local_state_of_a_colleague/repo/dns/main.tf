terraform {
  required_version = "~> 1.9"
}

resource "terraform_data" "dns" {}
