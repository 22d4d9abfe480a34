account      = "acme-dev-1"
name         = "reader"
trust_policy = "Accounts/acme-dev-1/role/trust-policy.json"
