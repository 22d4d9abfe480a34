terraform {
  required_version = ">= 1.5"
}

variable "label" {
  type = string
}

variable "network_id" {
  type = string
}

variable "size" {
  type = number
}

variable "tags" {
  type = map(string)
}

resource "terraform_data" "app" {
  input = { label = var.label, network = var.network_id, size = var.size, tags = var.tags }
}
