terraform {
  required_version = ">= 1.5"
}

variable "environment" { type = string }
variable "network_id" { type = string }
variable "zones" { type = list(string) }
variable "size" {}
variable "color" { type = string }
variable "tags" { type = map(string) }
resource "terraform_data" "app" { input = { n = var.network_id, z = var.zones, s = var.size, c = var.color, t = var.tags, o = local.owner, e = var.environment } }
