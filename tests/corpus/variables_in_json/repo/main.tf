terraform {
  required_version = "~> 1.9"
  backend "s3" {}
}

variable "size" {
  type = number
}

resource "terraform_data" "app" {
  input = var.size
}
