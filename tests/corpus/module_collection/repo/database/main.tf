terraform {
  required_providers {
    aws = {
      source  = "hashicorp/aws"
      version = ">= 5.0"
    }
  }
}

variable "name" {
  type = string
}

variable "db_password" {
  type = string
}

resource "aws_db_instance" "main" {
  identifier = var.name
  password   = var.db_password
}

module "labels" {
  source = "git::https://git.example.com/labels.git"
}
