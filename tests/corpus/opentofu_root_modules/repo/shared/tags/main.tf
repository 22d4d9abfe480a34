variable "value" {
  type = string
}

resource "terraform_data" "tags" {
  input = var.value
}
