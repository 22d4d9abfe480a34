terraform {
  required_version = ">= 1.5"
}

variable "account" {
  description = "Account of the deployment."
  type        = string
}

variable "name" {
  description = "Name of the deployment."
  type        = string
}

variable "trust_policy" {
  description = "Path of the trust policy, relative to the repository root."
  type        = string
}

module "naming" {
  source  = "../../modules/naming"
  account = var.account
  service = "role"
  name    = var.name
}

resource "terraform_data" "role" {
  input = {
    name  = module.naming.full
    trust = jsondecode(file("${path.module}/../../${var.trust_policy}"))
  }
}

output "role_name" {
  description = "Name of the role."
  value       = terraform_data.role.output.name
}
