terraform {
  required_version = "~> 1.10"
}

locals {
  notes     = file("${path.module}/NOTES.md")
  generated = file("${path.module}/generated.json")
}
