terraform {
  required_version = ">= 1.5"

  backend "local" {}
}

variable "environment" {
  description = "The environment of the database."
  type        = string
}

variable "size" {
  description = "The number of instances."
  type        = number
}

variable "subnet" {
  description = "The address range that the database is in."
  type        = string
}

resource "terraform_data" "database" {
  input = "db.${var.environment}.internal (${var.size} in ${var.subnet})"
}

output "address" {
  description = "The address of the database."
  value       = terraform_data.database.output
}
