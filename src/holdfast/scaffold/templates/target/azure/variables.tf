variable "name" {
  description = "The name of the cluster and of its resource group."
  type        = string
  default     = "@{name}"
}

variable "subscription_id" {
  description = "The Azure subscription."
  type        = string
}

variable "location" {
  description = "The Azure region."
  type        = string
}

variable "network" {
  description = "The CIDR block of the virtual network: a /16."
  type        = string
  default     = "10.0.0.0/16"
}

variable "zone_id" {
  description = "The id of the DNS zone in which certificates are proved."
  type        = string
}

variable "key_vault_name" {
  description = "The name of the Key Vault, which is unique in all of Azure."
  type        = string
}

variable "kubernetes_version" {
  description = "The version of Kubernetes."
  type        = string
  default     = "1.34"
}

variable "vm_size" {
  description = "The size of the nodes."
  type        = string
  default     = "Standard_D4s_v5"
}

variable "nodes" {
  description = "How many nodes there are at least and at most."
  type        = object({ min = number, max = number })
  default     = { min = 2, max = 6 }
}
