terraform {
  required_version = "~> 1.10"
  backend "s3" {
    bucket       = "acme-states"
    key          = "runner/terraform.tfstate"
    encrypt      = true
    use_lockfile = true
  }
}

resource "terraform_data" "runner" {
  input = "runner"

  provisioner "local-exec" {
    command = "bash ../../tools/setup.sh --quiet"
  }
}
