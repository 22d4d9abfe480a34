terraform {
  backend "s3" {}
}

variable "size" {
  type = number
}

resource "terraform_data" "network" {
  input = var.size
}
