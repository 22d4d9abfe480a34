locals {
  owner = "André"
}
