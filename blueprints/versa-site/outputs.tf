output "vpn_profile" {
  description = "The name of the VPN profile in the template."
  value       = restapi_object.vpn_profile.id
}

output "bgp_group" {
  description = "The name of the BGP group in the template."
  value       = restapi_object.bgp_group.id
}
