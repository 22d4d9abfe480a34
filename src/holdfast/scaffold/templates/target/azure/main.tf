# A Kubernetes cluster on Azure with the outputs of the contract platform-v1. What runs in the cluster belongs to GitOps.

terraform {
  required_version = ">= 1.10"

  required_providers {
    azurerm = {
      source  = "hashicorp/azurerm"
      version = "~> 4.0"
    }
  }

  # Account, container and key come from holdfast.yaml.
  backend "azurerm" {}
}

provider "azurerm" {
  features {}

  subscription_id = var.subscription_id
}

data "azurerm_client_config" "current" {}

locals {
  environments = toset(["dev", "staging", "prod"])
}

resource "azurerm_resource_group" "main" {
  name     = var.name
  location = var.location
}
