account = "acme-prod-1"
name    = "orders"
