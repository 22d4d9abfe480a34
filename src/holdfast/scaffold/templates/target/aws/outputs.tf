output "cluster_name" {
  description = "The name of the cluster."
  value       = aws_eks_cluster.main.name
}

output "cluster_type" {
  description = "Which kind of target this is."
  value       = "aws"
}

output "kube_context" {
  description = "The kubectl context, as `aws eks update-kubeconfig` names it."
  value       = aws_eks_cluster.main.arn
}

output "cluster_gateway_public_address" {
  description = "The public address of the cluster's gateway."
  value       = aws_eip.cluster_gateway.public_ip
}

output "env_gateway_public_addresses" {
  description = "The public address of each environment's gateway."
  value = {
    dev     = aws_eip.gateway["dev"].public_ip
    staging = aws_eip.gateway["staging"].public_ip
    prod    = aws_eip.gateway["prod"].public_ip
  }
}

output "dns_challenge_identities" {
  description = "Who may answer DNS challenges."
  value = {
    argocd  = { aws_role_arn = aws_iam_role.dns_challenge["argocd"].arn }
    dev     = { aws_role_arn = aws_iam_role.dns_challenge["dev"].arn }
    staging = { aws_role_arn = aws_iam_role.dns_challenge["staging"].arn }
    prod    = { aws_role_arn = aws_iam_role.dns_challenge["prod"].arn }
  }
}

output "secrets_source_uri" {
  description = "Where the platform's secrets are."
  value       = "https://secretsmanager.${var.region}.amazonaws.com"
}
