terraform {
  required_version = "~> 1.9"
  backend "s3" {
    bucket = "acme-states"
  }
}

variable "size" {
  type = number
}

resource "terraform_data" "app" {
  input = var.size
}
