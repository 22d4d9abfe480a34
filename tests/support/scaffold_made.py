"""A configuration with targets of both owners, for what `holdfast scaffold` generates from it."""

from __future__ import annotations

CONFIG = """
version: 1
store: {store}
targets:
  aws: {{ owner: ci }}
  azure: {{ owner: ci, lane: blue }}
  laptop: {{ owner: developers }}
environments: {{ dev: {{ match: [dev] }} }}
stacks:
  - name: network
    module: code
    target: aws
    environment: dev
    variables: {{ size: 3, word: "${{{{x}}}}", token: {{ secret: "env:TOKEN" }} }}
    backend: {{ type: s3, settings: {{ bucket: states, key: "a/b", region: eu-west-1 }} }}
  - {{ name: cluster, module: code, target: azure, environment: dev, backend: {{ type: azurerm }} }}
  - {{ name: mine, module: code, target: laptop, environment: dev }}
"""
BUCKET = CONFIG.format(store="s3://runs/of-acme")
SERVER = CONFIG.format(store="https://holdfast.example.com")
CODE = 'variable "size" {}\nvariable "word" {}\nvariable "token" {}\noutput "x" { value = var.size }\n'
