terraform {
  required_version = "~> 1.10"
  backend "s3" {
    bucket = "acme-trial"
    key    = "app"
  }
}
