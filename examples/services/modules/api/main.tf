terraform {
  required_version = ">= 1.5"

  backend "local" {}
}

variable "environment" {
  description = "The environment of the API."
  type        = string
}

variable "size" {
  description = "The number of instances."
  type        = number
}

variable "network" {
  description = "The id of the network."
  type        = string
}

variable "database" {
  description = "The address of the database."
  type        = string
}

resource "terraform_data" "api" {
  input = { url = "https://api.${var.environment}.acme.example", size = var.size, uses = [var.network, var.database] }
}

output "url" {
  description = "The address of the API."
  value       = terraform_data.api.output.url
}
