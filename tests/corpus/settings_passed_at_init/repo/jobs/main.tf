terraform {
  required_version = "~> 1.9"
  backend "gcs" {
    bucket = "acme-states"
    prefix = "jobs"
  }
}

variable "size" {
  type = number
}

resource "terraform_data" "jobs" {
  input = "${terraform.workspace} ${var.size}"
}
