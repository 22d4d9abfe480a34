size = 1
sise = 2
