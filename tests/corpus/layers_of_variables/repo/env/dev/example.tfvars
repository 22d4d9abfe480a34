name = "example"
