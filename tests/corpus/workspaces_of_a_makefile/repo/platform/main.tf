terraform {
  required_version = "~> 1.9"
  backend "gcs" {
    bucket = "acme-states"
    prefix = "platform"
  }
}

variable "size" {
  type    = number
  default = 1
}

resource "terraform_data" "platform" {
  input = var.size
}
