stack {
  name = "vpc"
}
