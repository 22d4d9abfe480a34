account = "acme-prod-2"
name    = "orders"
