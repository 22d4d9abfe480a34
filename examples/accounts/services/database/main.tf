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

variable "engine" {
  description = "Database engine and version."
  type        = string
  default     = "postgres-18"
}

variable "password" {
  description = "Password of the user `app`. In a real stack it would come from a secret store."
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

# Changing the engine replaces the database, as in a real cloud.
resource "terraform_data" "database" {
  input            = { name = module.naming.full }
  triggers_replace = [var.engine]
}

resource "terraform_data" "login" {
  input = { user = "app", password = var.password }
}

output "address" {
  description = "Address of the database."
  value       = "${terraform_data.database.output.name}.db.internal"
}

output "password" {
  description = "Password of the user `app`."
  value       = var.password
  sensitive   = true
}
