terraform {
  required_version = ">= 1.5"
}

variable "account" {
  description = "The account that this deployment is for."
  type        = string
}

variable "name" {
  description = "What the deployment is called."
  type        = string
}

variable "trust_policy" {
  description = "A file, relative to the root of the repository."
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
  description = "What programs that take on the role need."
  value       = terraform_data.role.output.name
}
