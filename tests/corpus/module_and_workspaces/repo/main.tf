terraform {
  required_version = "~> 1.9"
  backend "local" {}
}

locals {
  sizes = { dev = 1, prod = 3 }
}

resource "terraform_data" "cluster" {
  input = local.sizes[terraform.workspace]
}
