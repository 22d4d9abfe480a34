resource "terraform_data" "dns" {
  input = "new"
}
