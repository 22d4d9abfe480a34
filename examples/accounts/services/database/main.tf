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

variable "engine" {
  description = "Which database it is, and which version of it."
  type        = string
  default     = "postgres-18"
}

variable "password" {
  description = "Of the user `app`. In a cloud it would come from a secret store."
  type        = string
  sensitive   = true
  default     = "only-an-example"
}

module "naming" {
  source  = "../../modules/naming"
  account = var.account
  service = "database"
  name    = var.name
}

# A change of the engine replaces the database, as it would in a cloud.
resource "terraform_data" "database" {
  input            = { name = module.naming.full }
  triggers_replace = [var.engine]
}

resource "terraform_data" "login" {
  input = { user = "app", password = var.password }
}

output "address" {
  description = "Where programs reach it."
  value       = "${terraform_data.database.output.name}.db.internal"
}

output "password" {
  description = "Of the user `app`."
  value       = var.password
  sensitive   = true
}
