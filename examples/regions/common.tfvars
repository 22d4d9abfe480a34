company = "acme"
