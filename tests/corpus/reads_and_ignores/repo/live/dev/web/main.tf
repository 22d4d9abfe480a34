terraform {
  required_version = "~> 1.10"
}

locals {
  name = "web"
}
