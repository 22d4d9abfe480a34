"""Who calls the server, and what they may do there: tokens, CI tokens of an OIDC issuer, roles."""
