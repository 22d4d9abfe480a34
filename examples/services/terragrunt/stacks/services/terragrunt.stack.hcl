unit "network" {
  source = "${find_in_parent_folders("units")}/network"
  path   = "network"
  values = values
}

unit "database" {
  source = "${find_in_parent_folders("units")}/database"
  path   = "database"
  values = values
}

unit "api" {
  source = "${find_in_parent_folders("units")}/api"
  path   = "api"
  values = values
}

unit "web" {
  source = "${find_in_parent_folders("units")}/web"
  path   = "web"
  values = values
}
