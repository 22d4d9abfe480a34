# Who may answer DNS challenges: one identity for Argo CD and one for each environment, bound to service accounts
# of cert-manager by workload identity.

resource "azurerm_user_assigned_identity" "dns_challenge" {
  for_each = setunion(local.environments, ["argocd"])

  name                = "${var.name}-dns-challenge-${each.key}"
  resource_group_name = azurerm_resource_group.main.name
  location            = azurerm_resource_group.main.location
}

resource "azurerm_federated_identity_credential" "dns_challenge" {
  for_each = azurerm_user_assigned_identity.dns_challenge

  name                = "cert-manager"
  resource_group_name = azurerm_resource_group.main.name
  parent_id           = each.value.id
  audience            = ["api://AzureADTokenExchange"]
  issuer              = azurerm_kubernetes_cluster.main.oidc_issuer_url
  subject             = "system:serviceaccount:cert-manager-${each.key}:cert-manager"
}

resource "azurerm_role_assignment" "dns_challenge" {
  for_each = azurerm_user_assigned_identity.dns_challenge

  scope                = var.zone_id
  role_definition_name = "DNS Zone Contributor"
  principal_id         = each.value.principal_id
}
