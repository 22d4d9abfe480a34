terraform {
  required_version = "~> 1.9"
  backend "s3" {
    bucket = "acme-states"
    key    = "network/terraform.tfstate"
  }
}

resource "terraform_data" "network" {
  input = 1
}
