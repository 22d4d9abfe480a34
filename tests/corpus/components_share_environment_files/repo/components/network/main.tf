terraform {
  required_version = "~> 1.9"
  backend "s3" {
    key = "network/terraform.tfstate"
  }
}

variable "cidr" {
  type = string
}

resource "terraform_data" "network" {
  input = var.cidr
}
