terraform {
  required_version = ">= 1.5"
}

variable "company" {
  description = "Whose organisation it is."
  type        = string
}

resource "terraform_data" "organisation" {
  input = var.company
}

output "organisation" {
  description = "What everything else belongs to."
  value       = terraform_data.organisation.output
}
