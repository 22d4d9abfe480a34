terraform {
  required_version = "~> 1.9"
  backend "s3" {
    key = "cluster/terraform.tfstate"
  }
}

variable "cidr" {
  type = string
}

resource "terraform_data" "cluster" {
  input = var.cidr
}
