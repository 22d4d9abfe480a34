account = "acme-dev-1"
name    = "orders"
