account      = "acme-dev-2"
name         = "reader"
trust_policy = "Accounts/acme-dev-2/role/trust-policy.json"
