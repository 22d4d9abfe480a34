variable "name" {
  description = "The name of the cluster; the same as in k3d.yaml."
  type        = string
  default     = "@{name}"
}

variable "address" {
  description = "The address at which k3d publishes its load balancer."
  type        = string
  default     = "127.0.0.1"
}
