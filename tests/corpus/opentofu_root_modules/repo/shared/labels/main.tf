variable "value" {
  type = string
}

resource "terraform_data" "labels" {
  input = var.value
}
