terraform {
  required_version = ">= 1.5"
}

variable "environment" { type = string }
variable "zones" { type = list(string) }
resource "terraform_data" "network" { input = { id = "net-${var.environment}-${local.owner}", zones = var.zones } }
output "id" { value = terraform_data.network.output.id }
output "zones" { value = terraform_data.network.output.zones }
