terraform {
  required_version = "~> 1.10"
  backend "s3" {
    bucket       = "acme-states"
    key          = "queue/terraform.tfstate"
    encrypt      = true
    use_lockfile = true
  }
}

module "queue" {
  source = "../../vendor/modules/acme-queue"
}
