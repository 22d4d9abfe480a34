terraform {
  backend "s3" {
    bucket = "states"
    key    = "prod/app.tfstate"
    region = "eu-central-1"
  }
}
