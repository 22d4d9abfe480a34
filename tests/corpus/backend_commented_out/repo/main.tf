terraform {
  required_version = "~> 1.9"
  # backend "azurerm" {
  #   container_name = "states"
  # }
}

resource "terraform_data" "site" {}
