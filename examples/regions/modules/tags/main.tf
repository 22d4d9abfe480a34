variable "component" {
  description = "Component that the tagged resources belong to."
  type        = string
}

output "all" {
  description = "Tags for every resource."
  value       = { component = var.component, managed_by = "terraform" }
}
