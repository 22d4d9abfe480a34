color = "red"
