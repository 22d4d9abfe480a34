locals {
  environment = "prod"
  owner       = "team-prod"
}
