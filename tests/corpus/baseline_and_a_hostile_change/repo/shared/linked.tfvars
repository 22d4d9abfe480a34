size = 1
legacy = true
