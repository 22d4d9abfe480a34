resource "terraform_data" "cluster" {}
