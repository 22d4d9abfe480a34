variable "component" {
  description = "What the tagged things are a part of."
  type        = string
}

output "all" {
  description = "The tags that everything carries."
  value       = { component = var.component, managed_by = "terraform" }
}
