variable "component" { type = string }

output "all" {
  value = { component = var.component, managed_by = "terraform" }
}
