variable "account" { type = string }
variable "name" { type = string }
variable "retention_days" {
  type    = number
  default = 4
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

output "queue_name" { value = terraform_data.queue.output.name }
