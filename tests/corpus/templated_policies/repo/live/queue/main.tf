terraform {
  required_version = "~> 1.9"
}

variable "topic_arn" {
  type = string
}

variable "source_accounts" {
  type    = list(string)
  default = ["111122223333"]
}

# Read as it is: `data.template_file` fills it in.
data "template_file" "queue" {
  template = file("${path.module}/policy.json.tftpl")
}

resource "aws_sqs_queue_policy" "alarms" {
  queue_url = "https://sqs.eu-west-1.amazonaws.com/111122223333/alarms"
  policy    = templatefile("${path.module}/policy.json.tftpl", { queue_arn = "*", topic_arn = var.topic_arn })
}

data "aws_iam_policy_document" "topic" {
  statement {
    actions   = ["sns:Publish"]
    resources = ["*"]
    principals {
      type        = "AWS"
      identifiers = ["*"]
    }
    dynamic "condition" {
      for_each = var.source_accounts
      content {
        test     = "StringEquals"
        variable = "aws:SourceAccount"
        values   = [condition.value]
      }
    }
  }
}

resource "aws_sns_topic_policy" "alarms" {
  arn    = "arn:aws:sns:eu-west-1:111122223333:alarms"
  policy = data.aws_iam_policy_document.topic.json
}

resource "aws_s3_bucket_policy" "uploads" {
  bucket = "acme-uploads"
  policy = jsonencode({
    Version = "2012-10-17"
    Statement = [{
      Effect    = "Allow"
      Principal = "*"
      Action    = "s3:PutObject"
      Resource  = "arn:aws:s3:::acme-uploads/*"
    }]
  })
}
