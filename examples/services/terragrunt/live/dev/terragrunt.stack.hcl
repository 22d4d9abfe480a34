stack "services" {
  source = "../../stacks/services"
  path   = "services"
  values = {
    environment = "dev"
    cidr        = "10.1.0.0/16"
    size        = 1
  }
}
