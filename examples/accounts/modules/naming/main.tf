# One place that decides what things are called; every service uses it.
variable "account" { type = string }
variable "service" { type = string }
variable "name" { type = string }

output "full" {
  value = "${var.account}-${var.service}-${var.name}"
}
