size = 1
colour = "red"
