terraform {
  required_version = "~> 1.10"
  backend "s3" {
    bucket       = "acme-states"
    key          = "prod/alerts"
    use_lockfile = true
    encrypt      = true
  }
}

module "topic" {
  source = "../../../modules/topic"
}

# Used twice, and reported once.
resource "aws_sqs_queue_policy" "jobs" {
  queue_url = "https://sqs.eu-west-1.amazonaws.com/111122223333/jobs"
  policy    = templatefile("${path.module}/queue-policy.json", { queue = "jobs" })
}

resource "aws_sns_topic_policy" "mail" {
  arn    = "arn:aws:sns:eu-west-1:111122223333:mail"
  policy = templatefile("${path.module}/queue-policy.json", { queue = "mail" })
}
