locals {
  environment = "dev"
  owner       = "team-dev"
}
