terraform {
  required_version = "~> 1.9"
  backend "s3" {}
}

resource "terraform_data" "service" {}
