# A cluster on this machine with k3d, with the outputs of the contract platform-v1. It uses no cloud: k3d itself is
# started by the hook in holdfast.yaml, with k3d.yaml, which is beside this file.

terraform {
  required_version = ">= 1.4"
}

resource "terraform_data" "cluster" {
  input = {
    name    = var.name
    address = var.address
    config  = filesha256("${path.module}/k3d.yaml")
  }
}
