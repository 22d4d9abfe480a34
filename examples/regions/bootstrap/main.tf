variable "company" { type = string }

resource "terraform_data" "organisation" {
  input = var.company
}

output "organisation" { value = terraform_data.organisation.output }
