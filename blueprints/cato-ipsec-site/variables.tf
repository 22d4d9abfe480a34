# The payload of an event.

variable "site_name" {
  type        = string
  description = "The name of the site in Cato, unique in the account."

  validation {
    # The provider splits names of Cato at backslashes.
    condition     = can(regex("^[A-Za-z0-9]([A-Za-z0-9 ._-]{0,62}[A-Za-z0-9])?$", var.site_name))
    error_message = "site_name has 1 to 64 letters, digits, spaces, dots, dashes and underscores, and begins and ends with a letter or digit."
  }
}

variable "network_range" {
  type        = string
  description = "The native network of the site, such as 10.20.0.0/24."

  validation {
    condition     = can(regex("^[0-9]{1,3}([.][0-9]{1,3}){3}/[0-9]{1,2}$", var.network_range)) && can(cidrnetmask(var.network_range)) && try(cidrsubnet(var.network_range, 0, 0), "") == var.network_range
    error_message = "network_range is an IPv4 network whose address is its first, such as 10.20.0.0/24."
  }
}

variable "public_ip" {
  type        = string
  description = "The public IPv4 address of the site's end of the tunnel."

  validation {
    condition     = can(regex("^[0-9]{1,3}([.][0-9]{1,3}){3}$", var.public_ip)) && can(cidrhost("${var.public_ip}/32", 0))
    error_message = "public_ip is an IPv4 address, such as 203.0.113.10."
  }
}

variable "cato_private_ip" {
  type        = string
  description = "The private IPv4 address of Cato's end of the tunnel."

  validation {
    condition     = can(regex("^[0-9]{1,3}([.][0-9]{1,3}){3}$", var.cato_private_ip)) && can(cidrhost("${var.cato_private_ip}/32", 0))
    error_message = "cato_private_ip is an IPv4 address, such as 169.254.10.1."
  }
}

variable "bgp_neighbor_ip" {
  type        = string
  description = "The private IPv4 address of the site's end of the tunnel: Cato's BGP neighbor."

  validation {
    condition     = can(regex("^[0-9]{1,3}([.][0-9]{1,3}){3}$", var.bgp_neighbor_ip)) && can(cidrhost("${var.bgp_neighbor_ip}/32", 0))
    error_message = "bgp_neighbor_ip is an IPv4 address, such as 169.254.10.2."
  }

  validation {
    condition     = var.bgp_neighbor_ip != var.cato_private_ip
    error_message = "bgp_neighbor_ip and cato_private_ip are the two ends of the tunnel: they differ."
  }
}

variable "bgp_peer_asn" {
  type        = number
  description = "The AS number of the site."

  validation {
    condition     = var.bgp_peer_asn >= 1 && var.bgp_peer_asn <= 4294967294 && floor(var.bgp_peer_asn) == var.bgp_peer_asn
    error_message = "bgp_peer_asn is a whole number from 1 to 4294967294."
  }
}

variable "cato_asn" {
  type        = number
  description = "The AS number of Cato."
  default     = 65000
  nullable    = false

  validation {
    # Cato takes only 16 bits for its own end.
    condition     = var.cato_asn >= 1 && var.cato_asn <= 65534 && floor(var.cato_asn) == var.cato_asn
    error_message = "cato_asn is a whole number from 1 to 65534."
  }
}

variable "description" {
  type        = string
  description = "What people read about the site in Cato."
  default     = "Managed by Holdfast"
  nullable    = false

  validation {
    # The provider reads an empty one as null, and would then plan a change for ever.
    condition     = length(var.description) >= 1 && length(var.description) <= 255
    error_message = "description has 1 to 255 characters."
  }
}

variable "site_type" {
  type        = string
  description = "What kind of site it is."
  default     = "BRANCH"
  nullable    = false

  validation {
    condition     = contains(["BRANCH", "HEADQUARTERS", "CLOUD_DC", "DATACENTER"], var.site_type)
    error_message = "site_type is BRANCH, HEADQUARTERS, CLOUD_DC or DATACENTER."
  }
}

variable "location" {
  type = object({
    country_code = string
    timezone     = string
    state_code   = optional(string)
    city         = optional(string)
    address      = optional(string)
  })
  description = "Where the site is. `catocli query siteLocation` lists what Cato accepts."
  default     = { country_code = "DE", timezone = "Europe/Berlin" }
  nullable    = false

  validation {
    condition     = can(regex("^[A-Z]{2}$", var.location.country_code))
    error_message = "country_code has two capital letters, such as DE."
  }
}

variable "bandwidth" {
  type        = object({ downstream = number, upstream = number })
  description = "The bandwidth of the last mile in Mbit/s."
  default     = { downstream = 10, upstream = 10 }
  nullable    = false

  validation {
    condition     = var.bandwidth.downstream >= 1 && var.bandwidth.upstream >= 1
    error_message = "downstream and upstream are at least 1."
  }
}

variable "public_cato_ip_id" {
  type        = string
  description = "The id of the allocated IP address of Cato that the tunnel ends at."
  default     = null
}

variable "pop_location_id" {
  type        = string
  description = "The id of the PoP that the tunnel ends at, instead of an allocated address."
  default     = null
}

# Set by blueprint.yaml.

variable "account_id" {
  type        = string
  description = "The account of Cato."
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
