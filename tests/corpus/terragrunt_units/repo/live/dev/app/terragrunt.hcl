include "root" {
  path = find_in_parent_folders("root.hcl")
}

include "app" {
  path   = "${dirname(find_in_parent_folders("root.hcl"))}/../common/app.hcl"
  expose = true
}

inputs = {
  size = include.app.locals.size + 1
}
