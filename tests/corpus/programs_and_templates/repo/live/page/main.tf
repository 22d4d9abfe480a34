terraform {
  required_version = "~> 1.10"
  backend "s3" {
    bucket       = "acme-states"
    key          = "page/terraform.tfstate"
    encrypt      = true
    use_lockfile = true
  }
}

variable "theme" {
  description = "Which file(name) to use: see file( in the guide."
  default     = "light"
}

output "page" {
  value = templatefile("${path.module}/page.tftpl", { theme = var.theme })
}
