stack "services" {
  source = "../../stacks/services"
  path   = "services"
  values = {
    environment = "prod"
    cidr        = "10.3.0.0/16"
    size        = 3
  }
}
