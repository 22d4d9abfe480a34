size = 1
zone = "b"
