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

variable "retention_days" {
  description = "Message retention in days."
  type        = number
  default     = 4
}

module "naming" {
  source  = "../../modules/naming"
  account = var.account
  service = "queue"
  name    = var.name
}

resource "terraform_data" "queue" {
  input = {
    name           = module.naming.full
    retention_days = var.retention_days
  }
}

resource "terraform_data" "dead_letters" {
  input = { name = "${module.naming.full}-dead" }
}

output "queue_name" {
  description = "Name of the queue."
  value       = terraform_data.queue.output.name
}
