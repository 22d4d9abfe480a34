resource "terraform_data" "network" {}
