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

variable "retention_days" {
  description = "How long a message is kept."
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
  description = "What programs that send to it need."
  value       = terraform_data.queue.output.name
}
