terraform {
  backend "s3" {
    bucket = "states"
    key    = "dev/app.tfstate"
    region = "eu-central-1"
  }
}

locals {
  empty  = []
  first  = element(local.empty, 0)
  broken = [1, 2][7] / 0
  x0     = ["lol", "lol", "lol", "lol", "lol", "lol", "lol", "lol", "lol", "lol"]
  x1     = [for a in local.x0 : local.x0]
  x2     = [for a in local.x1 : local.x1]
  x3     = [for a in local.x2 : local.x2]
  x4     = [for a in local.x3 : local.x3]
  x5     = [for a in local.x4 : local.x4]
  loop   = local.pool
  pool   = "${local.loop}${local.first}"
  many   = join("", [for a in local.x0 : format("%0999999999d", 1)])
}

output "sizes" {
  value = [local.broken, local.x5, local.pool, file("${path.module}/policy.json")]
}
