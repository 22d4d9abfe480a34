# The naming convention that all services use.
variable "account" {
  description = "Account of the deployment."
  type        = string
}

variable "service" {
  description = "Kind of service: queue, role or database."
  type        = string
}

variable "name" {
  description = "Name of the deployment."
  type        = string
}

output "full" {
  description = "Full name, unique in the company."
  value       = "${var.account}-${var.service}-${var.name}"
}
