stack "services" {
  source = "../../stacks/services"
  path   = "services"
  values = {
    environment = "stage"
    cidr        = "10.2.0.0/16"
    size        = 1
  }
}
