output "site_id" {
  description = "The id of the site in Cato."
  value       = cato_ipsec_site.this.id
}

output "bgp_peer_id" {
  description = "The id of the BGP peer in Cato."
  value       = cato_bgp_peer.this.id
}
