variable "region" {
  type = string
}

resource "terraform_data" "cluster" {
  input = var.region
}
