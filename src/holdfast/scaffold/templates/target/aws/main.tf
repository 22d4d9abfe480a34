# A Kubernetes cluster on AWS with the outputs of the contract platform-v1. What runs in the cluster belongs to GitOps.

terraform {
  required_version = ">= 1.10"

  required_providers {
    aws = {
      source  = "hashicorp/aws"
      version = "~> 6.0"
    }
  }

  # Bucket, key and region come from holdfast.yaml.
  backend "s3" {}
}

provider "aws" {
  region = var.region

  default_tags {
    tags = { target = var.name }
  }
}

data "aws_availability_zones" "available" {
  state = "available"
}

locals {
  environments = toset(["dev", "staging", "prod"])
  zones        = slice(data.aws_availability_zones.available.names, 0, 3)
}
