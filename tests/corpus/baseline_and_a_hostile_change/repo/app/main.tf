variable "size" {
  type = number
}

variable "zone" {
  type    = string
  default = "a"
}
