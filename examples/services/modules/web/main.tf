terraform {
  required_version = ">= 1.5"

  backend "local" {}
}

variable "environment" {
  description = "The environment of the site."
  type        = string
}

variable "network" {
  description = "The id of the network."
  type        = string
}

variable "api" {
  description = "The address of the API."
  type        = string
}

resource "terraform_data" "web" {
  input = "https://${var.environment}.acme.example in ${var.network} with ${var.api}"
}

output "site" {
  description = "The site, its network and its API."
  value       = terraform_data.web.output
}
