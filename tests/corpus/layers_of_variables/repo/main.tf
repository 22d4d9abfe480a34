terraform {
  required_version = "~> 1.9"
  backend "s3" {
    bucket = "acme-states"
    key    = "app/terraform.tfstate"
  }
}

variable "name" {
  type = string
}

resource "terraform_data" "app" {
  input = "${var.name} ${lookup({ dev = 1, prod = 3 }, terraform.workspace)}"
}
