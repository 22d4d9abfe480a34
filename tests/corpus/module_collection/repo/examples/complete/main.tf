provider "aws" {
  region = "eu-west-1"
}

module "database" {
  source = "../../database"

  name        = "example"
  db_password = "summer-holiday"
}
