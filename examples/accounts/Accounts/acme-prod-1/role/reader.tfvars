account      = "acme-prod-1"
name         = "reader"
trust_policy = "Accounts/acme-prod-1/role/trust-policy.json"
