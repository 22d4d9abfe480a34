# Copied to live/NAME.
terraform {
  required_version = "~> 1.10"
  backend "s3" {
    bucket = "acme-states"
    key    = "service"
  }
}

module "topic" {
  source = "../../modules/alerts"
}
