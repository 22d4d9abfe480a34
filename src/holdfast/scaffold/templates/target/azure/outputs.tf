output "cluster_name" {
  description = "The name of the cluster."
  value       = azurerm_kubernetes_cluster.main.name
}

output "cluster_type" {
  description = "Which kind of target this is."
  value       = "azure"
}

output "kube_context" {
  description = "The kubectl context, as `az aks get-credentials` names it."
  value       = azurerm_kubernetes_cluster.main.name
}

output "cluster_gateway_public_address" {
  description = "The public address of the cluster's gateway."
  value       = azurerm_public_ip.cluster_gateway.ip_address
}

output "env_gateway_public_addresses" {
  description = "The public address of each environment's gateway."
  value = {
    dev     = azurerm_public_ip.gateway["dev"].ip_address
    staging = azurerm_public_ip.gateway["staging"].ip_address
    prod    = azurerm_public_ip.gateway["prod"].ip_address
  }
}

output "dns_challenge_identities" {
  description = "Who may answer DNS challenges."
  value = {
    argocd  = { azure_client_id = azurerm_user_assigned_identity.dns_challenge["argocd"].client_id }
    dev     = { azure_client_id = azurerm_user_assigned_identity.dns_challenge["dev"].client_id }
    staging = { azure_client_id = azurerm_user_assigned_identity.dns_challenge["staging"].client_id }
    prod    = { azure_client_id = azurerm_user_assigned_identity.dns_challenge["prod"].client_id }
  }
}

output "secrets_source_uri" {
  description = "Where the platform's secrets are."
  value       = azurerm_key_vault.main.vault_uri
}
