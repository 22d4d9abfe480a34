terraform {
  backend "s3" {
    bucket = "states"
    key    = "dev/network.tfstate"
    region = "eu-central-1"
  }
}
