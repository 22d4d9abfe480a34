data "aws_iam_policy_document" "subscribers" {
  statement {
    actions   = ["sns:Subscribe"]
    resources = ["arn:aws:sns:eu-west-1:111122223333:alerts"]
    principals {
      type        = "AWS"
      identifiers = ["*"]
    }
    condition {
      test     = "StringLike"
      variable = "SNS:Endpoint"
      values   = ["arn:aws:sqs:*:111122223333:*"]
    }
  }
}

resource "aws_sns_topic_policy" "alerts" {
  arn    = "arn:aws:sns:eu-west-1:111122223333:alerts"
  policy = data.aws_iam_policy_document.subscribers.json
}
