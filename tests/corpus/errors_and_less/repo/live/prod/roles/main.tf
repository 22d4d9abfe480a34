terraform {
  required_version = "~> 1.10"
  backend "s3" {
    bucket       = "acme-states"
    key          = "prod/roles"
    use_lockfile = true
    encrypt      = true
  }
}

variable "environment" {
  default = "prod"
}

locals {
  github = "token.actions.githubusercontent.com"
}

resource "aws_iam_role" "deploy" {
  assume_role_policy = jsonencode({
    Version = "2012-10-17"
    Statement = [{
      Effect    = "Allow"
      Action    = "sts:AssumeRoleWithWebIdentity"
      Principal = { Federated = "arn:aws:iam::111122223333:oidc-provider/${local.github}" }
      Condition = {
        StringEquals = { "${local.github}:aud" = "sts.amazonaws.com" }
        StringLike = {
          "${local.github}:sub" = var.environment == "sandbox" ? "repo:acme*:*" : "repo:acme/app:environment:prod"
        }
      }
    }]
  })
}

# Anyone can assume it.
resource "aws_iam_role" "open" {
  assume_role_policy = jsonencode({
    Version   = "2012-10-17"
    Statement = [{ Effect = "Allow", Action = "sts:AssumeRole", Principal = { AWS = "*" } }]
  })
}
