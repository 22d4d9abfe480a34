variable "name" {
  description = "The name of the cluster."
  type        = string
  default     = "@{name}"
}

variable "region" {
  description = "The AWS region."
  type        = string
}

variable "network" {
  description = "The CIDR block of the VPC: a /16."
  type        = string
  default     = "10.0.0.0/16"
}

variable "zone_id" {
  description = "The Route 53 zone in which certificates are proved."
  type        = string
}

variable "kubernetes_version" {
  description = "The version of Kubernetes."
  type        = string
  default     = "1.34"
}

variable "instance_types" {
  description = "The types of the nodes."
  type        = list(string)
  default     = ["m7i.large"]
}

variable "nodes" {
  description = "How many nodes there are at least and at most."
  type        = object({ min = number, max = number })
  default     = { min = 2, max = 6 }
}
