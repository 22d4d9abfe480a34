# The payload of an event.

variable "site_name" {
  type        = string
  description = "The name of the site: of its VPN profile and its BGP group."

  validation {
    condition     = can(regex("^[A-Za-z][A-Za-z0-9_-]{0,30}$", var.site_name))
    error_message = "site_name has 1 to 31 letters, digits, dashes and underscores, and begins with a letter."
  }
}

variable "template" {
  type        = string
  description = "The device template that is changed."

  validation {
    condition     = can(regex("^[A-Za-z0-9][A-Za-z0-9_-]{0,126}$", var.template))
    error_message = "template is the name of a template: letters, digits, dashes and underscores."
  }
}

variable "device" {
  type        = string
  description = "The device that the template is committed to."

  validation {
    condition     = can(regex("^[A-Za-z0-9][A-Za-z0-9_-]{0,126}$", var.device))
    error_message = "device is the name of a device: letters, digits, dashes and underscores."
  }
}

variable "public_ip" {
  type        = string
  description = "The IPv4 address of the device's own end of the tunnel."

  validation {
    condition     = can(regex("^[0-9]{1,3}([.][0-9]{1,3}){3}$", var.public_ip)) && can(cidrhost("${var.public_ip}/32", 0))
    error_message = "public_ip is an IPv4 address, such as 203.0.113.10."
  }
}

variable "peer_public_ip" {
  type        = string
  description = "The IPv4 address of the other end of the tunnel."

  validation {
    condition     = can(regex("^[0-9]{1,3}([.][0-9]{1,3}){3}$", var.peer_public_ip)) && can(cidrhost("${var.peer_public_ip}/32", 0))
    error_message = "peer_public_ip is an IPv4 address, such as 198.51.100.10."
  }

  validation {
    condition     = var.peer_public_ip != var.public_ip
    error_message = "peer_public_ip and public_ip are the two ends of the tunnel: they differ."
  }
}

variable "tunnel_interface" {
  type        = string
  description = "The tunnel interface of the device, which exists already."

  validation {
    condition     = can(regex("^tvi-[0-9]{1,2}/[0-9]{1,4}$", var.tunnel_interface))
    error_message = "tunnel_interface is a name such as tvi-0/601."
  }
}

variable "tunnel_ip" {
  type        = string
  description = "The IPv4 address of the tunnel interface: BGP's own address."

  validation {
    condition     = can(regex("^[0-9]{1,3}([.][0-9]{1,3}){3}$", var.tunnel_ip)) && can(cidrhost("${var.tunnel_ip}/32", 0))
    error_message = "tunnel_ip is an IPv4 address, such as 169.254.10.1."
  }
}

variable "bgp_neighbor_ip" {
  type        = string
  description = "The IPv4 address of the BGP neighbor in the tunnel."

  validation {
    condition     = can(regex("^[0-9]{1,3}([.][0-9]{1,3}){3}$", var.bgp_neighbor_ip)) && can(cidrhost("${var.bgp_neighbor_ip}/32", 0))
    error_message = "bgp_neighbor_ip is an IPv4 address, such as 169.254.10.2."
  }

  validation {
    condition     = var.bgp_neighbor_ip != var.tunnel_ip
    error_message = "bgp_neighbor_ip and tunnel_ip are the two ends of the tunnel: they differ."
  }
}

variable "bgp_peer_asn" {
  type        = number
  description = "The AS number of the neighbor."

  validation {
    condition     = var.bgp_peer_asn >= 1 && var.bgp_peer_asn <= 4294967294 && floor(var.bgp_peer_asn) == var.bgp_peer_asn
    error_message = "bgp_peer_asn is a whole number from 1 to 4294967294."
  }
}

variable "local_asn" {
  type        = number
  description = "The AS number of the device."
  default     = 65000
  nullable    = false

  validation {
    condition     = var.local_asn >= 1 && var.local_asn <= 4294967294 && floor(var.local_asn) == var.local_asn
    error_message = "local_asn is a whole number from 1 to 4294967294."
  }
}

variable "routing_instance" {
  type        = string
  description = "The routing instance of the LAN, in which BGP runs. Absent: ORGANIZATION-LAN-VR."
  default     = null

  validation {
    condition     = var.routing_instance == null || can(regex("^[A-Za-z0-9][A-Za-z0-9_-]{0,126}$", var.routing_instance))
    error_message = "routing_instance is a name: letters, digits, dashes and underscores."
  }
}

variable "transport_instance" {
  type        = string
  description = "The routing instance of the transport that the tunnel goes through."
  default     = "Internet-Transport-VR"
  nullable    = false

  validation {
    condition     = can(regex("^[A-Za-z0-9][A-Za-z0-9_-]{0,126}$", var.transport_instance))
    error_message = "transport_instance is a name: letters, digits, dashes and underscores."
  }
}

variable "bgp_instance" {
  type        = number
  description = "The id of the BGP instance in the routing instance, which exists already."
  default     = 3012
  nullable    = false

  validation {
    condition     = var.bgp_instance >= 1 && var.bgp_instance <= 65535 && floor(var.bgp_instance) == var.bgp_instance
    error_message = "bgp_instance is a whole number from 1 to 65535."
  }
}

# Set by blueprint.yaml.

variable "organization" {
  type        = string
  description = "The organization in Director that owns the device."

  validation {
    condition     = can(regex("^[A-Za-z0-9][A-Za-z0-9_-]{0,126}$", var.organization))
    error_message = "organization is a name: letters, digits, dashes and underscores."
  }
}

variable "commit_mode" {
  type        = string
  description = "How a commit treats what is only on the device: merge keeps it, overwrite removes it."

  validation {
    condition     = contains(["merge", "overwrite"], var.commit_mode)
    error_message = "commit_mode is merge or overwrite."
  }
}

variable "removal_mode" {
  type        = string
  description = "The same for the commit after the site was taken out of the template."

  validation {
    condition     = contains(["merge", "overwrite"], var.removal_mode)
    error_message = "removal_mode is merge or overwrite."
  }
}

variable "psk" {
  type        = string
  description = "The pre-shared key of the tunnel."
  sensitive   = true

  validation {
    condition     = length(var.psk) >= 10 && length(var.psk) <= 64
    error_message = "psk has 10 to 64 characters."
  }
}
