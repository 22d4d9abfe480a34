variable "value" {
  type = string
}

resource "terraform_data" "names" {
  input = var.value
}
