bucket       = "acme-prod"
key          = "app"
region       = "eu-central-1"
encrypt      = true
use_lockfile = true
