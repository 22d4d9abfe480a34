# The address and the credentials come from REST_API_URI, REST_API_USERNAME and REST_API_PASSWORD.
provider "restapi" {
  create_method = "PUT"
  update_method = "PUT"
}

locals {
  routing_instance = coalesce(var.routing_instance, "${var.organization}-LAN-VR")
  template_path    = "/api/config/devices/template/${var.template}"
  profiles         = "${local.template_path}/config/orgs/org-services/${var.organization}/ipsec/vpn-profile"
  groups           = "${local.template_path}/config/routing-instances/routing-instance/${local.routing_instance}/protocols/bgp/rti-bgp/${var.bgp_instance}/group"
  commit_path      = "/vnms/template/applyTemplate/${var.template}/devices"
  commit           = jsonencode({ "versanms.templateRequest" = { device-list = [var.device], mode = var.commit_mode } })
  removal          = jsonencode({ "versanms.templateRequest" = { device-list = [var.device], mode = var.removal_mode } })
}

# Created first and destroyed last: its creation only reads the template, its destruction commits what the
# others have taken out of it.
resource "restapi_object" "commit_removal" {
  path           = local.commit_path
  object_id      = "${var.template}-${var.device}-removal"
  data           = local.removal
  create_method  = "GET"
  create_path    = local.template_path
  read_path      = local.template_path
  update_method  = "GET"
  update_path    = local.template_path
  destroy_method = "POST"
  destroy_path   = local.commit_path
  destroy_data   = local.removal
  force_new      = [var.template, var.device]

  ignore_all_server_changes = true
}

resource "restapi_object" "vpn_profile" {
  path        = local.profiles
  object_id   = var.site_name
  create_path = "${local.profiles}/{id}"
  read_path   = "${local.profiles}/{id}?deep=true"
  # Another name or place is another object.
  force_new = [local.profiles, var.site_name]
  # Director does not return keys as they were sent.
  ignore_changes_to = ["vpn-profile.local-auth-info.key", "vpn-profile.peer-auth-info.key"]

  data = jsonencode({
    vpn-profile = {
      name                    = var.site_name
      vpn-type                = "site-to-site"
      tunnel-initiate         = "automatic"
      routing-instance        = var.transport_instance
      tunnel-routing-instance = local.routing_instance
      tunnel-interface        = "${var.tunnel_interface}.0"
      local-auth-info         = { auth-type = "psk", id-type = "ip", id-string = var.public_ip, key = var.psk }
      peer-auth-info          = { auth-type = "psk", id-type = "ip", id-string = var.peer_public_ip, key = var.psk }
      ipsec = {
        mode           = "tunnel"
        anti-replay    = "enable"
        life           = { duration = "28800" }
        hello-interval = { send-interval = "10" }
        transform      = "esp-aes256-gcm"
        pfs-group      = "mod14"
      }
      ike = {
        version     = "v2"
        lifetime    = "28800"
        dpd-timeout = "30"
        transform   = "aes256-sha256"
        group       = "mod14"
      }
      local = { inet = var.public_ip }
      peer  = { inet = var.peer_public_ip, address = [var.peer_public_ip] }
    }
  })

  depends_on = [restapi_object.commit_removal]
}

resource "restapi_object" "bgp_group" {
  path        = local.groups
  object_id   = var.site_name
  create_path = "${local.groups}/{id}"
  read_path   = "${local.groups}/{id}?deep=true"
  force_new   = [local.groups, var.site_name]

  data = jsonencode({
    group = {
      name = var.site_name
      type = "external"
      neighbor = [
        {
          bgp-neighbor-ip = var.bgp_neighbor_ip
          peer-as         = tostring(var.bgp_peer_asn)
          local-as        = tostring(var.local_asn)
          local-address   = var.tunnel_ip
        }
      ]
    }
  })

  depends_on = [restapi_object.vpn_profile]
}

# Commits the template after every change of the two above. Its destruction does nothing.
resource "restapi_object" "commit" {
  path           = local.commit_path
  object_id      = "${var.template}-${var.device}"
  data           = local.commit
  create_method  = "POST"
  create_path    = local.commit_path
  read_path      = local.template_path
  update_method  = "POST"
  update_path    = local.commit_path
  destroy_method = "GET"
  destroy_path   = local.template_path
  # The ids are unknown while one of the two is created, which does not count for replace_triggered_by.
  force_new = [var.template, var.device, restapi_object.vpn_profile.id, restapi_object.bgp_group.id]

  ignore_all_server_changes = true

  lifecycle {
    replace_triggered_by = [restapi_object.vpn_profile, restapi_object.bgp_group]
  }
}
