variable "account" { type = string }
variable "name" { type = string }
variable "engine" {
  type    = string
  default = "postgres-18"
}
variable "password" {
  type      = string
  sensitive = true
  default   = "only-an-example"
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

output "address" { value = "${terraform_data.database.output.name}.db.internal" }
output "password" {
  value     = var.password
  sensitive = true
}
