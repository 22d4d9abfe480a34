# Who may answer DNS challenges: one identity for Argo CD and one for each environment, bound to service accounts
# of cert-manager by pod identity.

data "aws_iam_policy_document" "pods_trust" {
  statement {
    actions = ["sts:AssumeRole", "sts:TagSession"]

    principals {
      type        = "Service"
      identifiers = ["pods.eks.amazonaws.com"]
    }
  }
}

data "aws_iam_policy_document" "dns_challenge" {
  statement {
    actions   = ["route53:GetChange"]
    resources = ["arn:aws:route53:::change/*"]
  }

  statement {
    actions   = ["route53:ChangeResourceRecordSets", "route53:ListResourceRecordSets"]
    resources = ["arn:aws:route53:::hostedzone/${var.zone_id}"]

    condition {
      test     = "ForAllValues:StringEquals"
      variable = "route53:ChangeResourceRecordSetsRecordTypes"
      values   = ["TXT"]
    }
  }
}

resource "aws_iam_role" "dns_challenge" {
  for_each = setunion(local.environments, ["argocd"])

  name               = "${var.name}-dns-challenge-${each.key}"
  assume_role_policy = data.aws_iam_policy_document.pods_trust.json
}

resource "aws_iam_role_policy" "dns_challenge" {
  for_each = aws_iam_role.dns_challenge

  name   = "dns-challenge"
  role   = each.value.id
  policy = data.aws_iam_policy_document.dns_challenge.json
}
