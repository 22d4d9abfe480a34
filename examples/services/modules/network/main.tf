terraform {
  required_version = ">= 1.5"

  backend "local" {}
}

variable "environment" {
  description = "The environment of the network."
  type        = string
}

variable "cidr" {
  description = "The address range of the network."
  type        = string
}

resource "terraform_data" "network" {
  input = { id = "vpc-${var.environment}", subnet = cidrsubnet(var.cidr, 8, 1) }
}

output "id" {
  description = "The id of the network."
  value       = terraform_data.network.output.id
}

output "subnet" {
  description = "The address range for databases."
  value       = terraform_data.network.output.subnet
}
