account = "acme-dev-2"
name    = "orders"
