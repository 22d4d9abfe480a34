# The base URL and the token come from CATO_BASEURL and CATO_TOKEN.
provider "cato" {
  account_id = var.account_id
}

resource "cato_ipsec_site" "this" {
  name                 = var.site_name
  site_type            = var.site_type
  description          = var.description
  native_network_range = var.network_range
  site_location        = var.location

  ipsec = {
    primary = {
      public_cato_ip_id = var.public_cato_ip_id
      pop_location_id   = var.pop_location_id
      tunnels = [
        {
          public_site_ip  = var.public_ip
          private_cato_ip = var.cato_private_ip
          private_site_ip = var.bgp_neighbor_ip
          psk             = var.psk
          last_mile_bw    = var.bandwidth
        }
      ]
    }
  }
}

resource "cato_bgp_peer" "this" {
  site_id        = cato_ipsec_site.this.id
  name           = var.site_name
  peer_ip        = var.bgp_neighbor_ip
  peer_asn       = var.bgp_peer_asn
  cato_asn       = var.cato_asn
  default_action = "ACCEPT"
  # The provider reads no routes as an empty list: null would be a change at every plan.
  summary_route = []

  lifecycle {
    # The provider accepts another site_id and ignores it: a new site needs a new peer.
    replace_triggered_by = [cato_ipsec_site.this.id]
  }
}
