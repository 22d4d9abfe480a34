# One place that decides what things are called; every service uses it.
variable "account" {
  description = "The account that this deployment is for."
  type        = string
}

variable "service" {
  description = "The kind of thing it is: queue, role, database."
  type        = string
}

variable "name" {
  description = "What the deployment is called."
  type        = string
}

output "full" {
  description = "The whole name, unique in the company."
  value       = "${var.account}-${var.service}-${var.name}"
}
