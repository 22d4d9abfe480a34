resource "terraform_data" "dns" {}
