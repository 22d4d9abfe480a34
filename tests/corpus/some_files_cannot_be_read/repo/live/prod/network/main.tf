terraform {
  backend "s3" {
    bucket = "states"
    key    = "prod/network.tfstate"
    region = "eu-central-1"
  }
}
