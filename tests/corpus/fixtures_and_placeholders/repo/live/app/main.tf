terraform {
  required_version = "~> 1.9"
}

resource "aws_secretsmanager_secret_version" "token" {
  secret_id     = "app/token"
  secret_string = "set manually after the first apply"
}

resource "aws_db_instance" "main" {
  identifier          = "app"
  password            = "summer-2019!"
  deletion_protection = true
}

variable "session_key" {
  type        = string
  default     = null
  description = "Such as SESSION_PASSWORD=winter7, from the settings of the application"
}

resource "aws_ssm_parameter" "session" {
  name  = "/app/session"
  type  = "SecureString"
  value = coalesce(var.session_key, "unused")
}

locals {
  deploy_token_hashes = ["5514c8081c74362c58993e5de935cb92e38cc9397e57a72883c1878cfcdd4b38"]
  deploy_token        = "q7Zk2mXw9TpL4rVb8sNd"
}
