account      = "acme-prod-2"
name         = "reader"
trust_policy = "Accounts/acme-prod-2/role/trust-policy.json"
