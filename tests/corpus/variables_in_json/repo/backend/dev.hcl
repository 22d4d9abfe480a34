bucket       = "acme-dev"
key          = "app"
region       = "eu-central-1"
encrypt      = true
use_lockfile = true
