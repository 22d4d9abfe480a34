variable "name" {
  type = string
}

resource "terraform_data" "registry" {
  input = var.name
}
