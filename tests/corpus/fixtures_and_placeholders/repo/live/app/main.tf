terraform {
  required_version = "~> 1.9"
}

resource "aws_secretsmanager_secret_version" "token" {
  secret_id     = "app/token"
  secret_string = "set manually after the first apply"
}

resource "aws_db_instance" "main" {
  identifier          = "app"
  password            = "summer-holiday"
  deletion_protection = true
}
