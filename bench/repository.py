"""A repository of any number of files, as teams have them: stacks with a few files each, and shared modules.

python bench/repository.py FOLDER FILES
"""

from __future__ import annotations

import sys
from pathlib import Path

PARTS = 8
"""Buckets, roles and outputs of a stack."""
CONFIG = """version: 1
environments: { dev: { match: ["*"] } }
stacks: [{ folder: "live/{team}/{name}", environment: dev }]
"""
VERSIONS = """terraform {
  required_version = "~> 1.9"
  required_providers {
    aws = { source = "hashicorp/aws", version = "~> 5.60" }
  }
  backend "s3" {
    bucket       = "acme-states"
    key          = "live/s{n}.tfstate"
    region       = "eu-west-1"
    encrypt      = true
    use_lockfile = true
  }
}

provider "aws" {
  region = var.region
  default_tags { tags = local.tags }
}
"""
VARIABLES = "".join(
    f"""variable "{name}" {{
  type        = {type_}
  description = "What part {{n}} uses as its {name}, which its owners agreed on."
  default     = {default}
}}

"""
    for name, type_, default in (
        ("region", "string", '"eu-west-1"'),
        ("name", "string", '"part-{n}"'),
        ("sizes", "map(number)", "{ small = 1, large = 4 }"),
        ("zones", "list(string)", '["eu-west-1a", "eu-west-1b", "eu-west-1c"]'),
        ("open", "bool", "false"),
        ("retention_days", "number", "30"),
        *((f"setting_{number}", "string", f'"value-{number}"') for number in range(12)),
    )
)
LOCALS = """locals {
  tags = {
    team        = "team-{n}"
    environment = "dev"
    cost_center = "shared"
  }
  rules = {
    for zone in var.zones : zone => { port = 443, cidr = "10.0.${length(zone)}.0/24", name = zone }
  }
  buckets = { for name, size in var.sizes : name => merge(local.tags, { size = size, name = name }) }
  enabled = { for name, bucket in local.buckets : name => bucket if bucket.size > 0 }
}
"""
NETWORK = """module "network" {
  source = "../../../modules/m{m}"
  name   = var.name
  cidrs  = [for rule in local.rules : rule.cidr]
  tags   = local.tags
}

""" + "".join(
    f"""resource "aws_security_group" "g{number}" {{
  name        = "web-{{n}}-{number}"
  description = "Allows part {{n}} to be reached from the inside, and to reach its database."
  vpc_id      = module.network.vpc_id
  dynamic "ingress" {{
    for_each = local.rules
    content {{
      from_port   = ingress.value.port
      to_port     = ingress.value.port
      protocol    = "tcp"
      cidr_blocks = [ingress.value.cidr]
    }}
  }}
  egress {{
    from_port   = 5432
    to_port     = 5432
    protocol    = "tcp"
    cidr_blocks = ["10.1.{number}.0/24"]
  }}
  tags = merge(local.tags, {{ part = "g{number}" }})
}}

"""
    for number in range(PARTS)
)
STORAGE = "".join(
    f"""resource "aws_s3_bucket" "b{number}" {{
  for_each = local.enabled
  bucket   = "acme-${{each.value.name}}-{{n}}-{number}"
  tags     = merge(local.tags, {{ part = "b{number}", size = each.value.size }})
}}

resource "aws_s3_bucket_lifecycle_configuration" "b{number}" {{
  for_each = local.enabled
  bucket   = aws_s3_bucket.b{number}[each.key].id
  rule {{
    id     = "expire"
    status = "Enabled"
    expiration {{ days = var.retention_days }}
  }}
}}

"""
    for number in range(PARTS)
)
TRUST = """  assume_role_policy = jsonencode({
    Version = "2012-10-17"
    Statement = [{
      Effect    = "Allow"
      Action    = "sts:AssumeRole"
      Principal = { Service = "lambda.amazonaws.com" }
      Condition = { StringEquals = { "aws:SourceAccount" = "123456789012" } }
    }]
  })
"""
IAM = "".join(
    f"""data "aws_iam_policy_document" "p{number}" {{
  statement {{
    sid       = "Read{number}"
    actions   = ["s3:GetObject", "s3:ListBucket"]
    resources = [for bucket in aws_s3_bucket.b{number} : "${{bucket.arn}}/*"]
    condition {{
      test     = "StringEquals"
      variable = "aws:SourceAccount"
      values   = ["123456789012"]
    }}
  }}
}}

resource "aws_iam_role" "r{number}" {{
  name = "${{var.name}}-reader-{number}"
{TRUST}}}

resource "aws_iam_role_policy" "r{number}" {{
  role   = aws_iam_role.r{number}.id
  policy = data.aws_iam_policy_document.p{number}.json
}}

"""
    for number in range(PARTS)
)
OUTPUTS = "".join(
    f"""output "bucket_{number}" {{
  description = "The bucket {number} of part {{n}}."
  value       = {{ for name, bucket in aws_s3_bucket.b{number} : name => bucket.arn }}
}}

"""
    for number in range(PARTS)
)
VALUES = 'region = "eu-west-1"\nname   = "part-{n}"\nsizes  = { small = 1, large = 4, huge = 16 }\n'
STACK = {
    "versions.tf": VERSIONS,
    "variables.tf": VARIABLES,
    "locals.tf": LOCALS,
    "network.tf": NETWORK,
    "storage.tf": STORAGE,
    "iam.tf": IAM,
    "outputs.tf": OUTPUTS,
    "terraform.tfvars": VALUES,
}
MODULE = {
    "main.tf": 'resource "aws_vpc" "this" {\n  cidr_block = var.cidrs[0]\n'
    "  tags       = merge(var.tags, { name = var.name })\n}\n"
    'resource "aws_subnet" "this" {\n  count      = length(var.cidrs)\n  vpc_id     = aws_vpc.this.id\n'
    "  cidr_block = var.cidrs[count.index]\n  tags       = var.tags\n}\n",
    "variables.tf": 'variable "name" {\n  type = string\n}\nvariable "cidrs" {\n  type = list(string)\n}\n'
    'variable "tags" {\n  type = map(string)\n}\n',
    "outputs.tf": 'output "vpc_id" {\n  value = aws_vpc.this.id\n}\n'
    'output "subnet_ids" {\n  value = aws_subnet.this[*].id\n}\n',
}
STACKS_OF_A_MODULE = 20


def write(root: Path, files: int) -> None:
    """So many files of code and variables, in stacks of eight files; a module of three for each twenty."""
    (root / "holdfast.yaml").write_text(CONFIG)
    number, left = 0, files
    while left > 0:
        module = number // STACKS_OF_A_MODULE
        folders = {root / "live" / f"team{number % 25:02}" / f"s{number:05}": STACK}
        if number % STACKS_OF_A_MODULE == 0:
            folders[root / "modules" / f"m{module}"] = MODULE
        for folder, texts in folders.items():
            folder.mkdir(parents=True)
            for name, text in texts.items():
                (folder / name).write_text(text.replace("{n}", str(number)).replace("{m}", str(module)))
                left -= 1
        number += 1


if __name__ == "__main__":
    write(Path(sys.argv[1]), int(sys.argv[2]))
