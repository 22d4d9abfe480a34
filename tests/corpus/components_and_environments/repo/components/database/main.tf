terraform {
  backend "s3" {}
}

variable "size" {
  type = number
}

resource "terraform_data" "database" {
  input = var.size
}
