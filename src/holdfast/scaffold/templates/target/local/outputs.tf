output "cluster_name" {
  description = "The name of the cluster."
  value       = var.name
}

output "cluster_type" {
  description = "Which kind of target this is."
  value       = "local"
}

output "kube_context" {
  description = "The kubectl context, as k3d names it."
  value       = "k3d-${var.name}"
}

output "cluster_gateway_public_address" {
  description = "The address of the cluster's gateway."
  value       = var.address
}

output "env_gateway_public_addresses" {
  description = "The address of each environment's gateway: the same for all."
  value = {
    dev     = var.address
    staging = var.address
    prod    = var.address
  }
}

output "secrets_source_uri" {
  description = "Where the platform's secrets are: in the cluster, seeded from .env."
  value       = "k8s://platform-secrets"
}
