# The same finding, further down.
size = 1
sise = 2
color = "red"
