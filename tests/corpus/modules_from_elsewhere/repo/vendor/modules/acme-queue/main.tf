terraform {
  required_version = "~> 1.10"
}

output "queue" {
  value = "queue"
}
