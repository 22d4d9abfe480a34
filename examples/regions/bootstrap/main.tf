terraform {
  required_version = ">= 1.5"
}

variable "company" {
  description = "Name of the company."
  type        = string
}

resource "terraform_data" "organisation" {
  input = var.company
}

output "organisation" {
  description = "Name of the organisation."
  value       = terraform_data.organisation.output
}
