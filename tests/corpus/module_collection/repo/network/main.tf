variable "cidr" {
  type = string
}

resource "aws_vpc" "main" {
  cidr_block = var.cidr
}

resource "terraform_data" "peering" {
  provisioner "local-exec" {
    command = "./peer.sh"
  }
}
