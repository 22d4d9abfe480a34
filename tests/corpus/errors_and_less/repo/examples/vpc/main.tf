terraform {
  required_version = "~> 1.10"
  backend "s3" {
    bucket = "acme-states"
    key    = "examples/vpc"
  }
}

module "vpc" {
  source = "acme/vpc/aws"
}
