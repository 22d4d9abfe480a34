terraform {
  required_version = "~> 1.9"
  backend "s3" {
    bucket       = "acme-states"
    key          = "cluster"
    region       = "eu-west-1"
    encrypt      = true
    use_lockfile = true
  }
}

resource "helm_release" "argocd" {
  name  = "argocd"
  chart = "argo-cd"
}
