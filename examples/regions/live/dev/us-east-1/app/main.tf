terraform {
  required_version = ">= 1.5"

  backend "local" {}
}

variable "greeting" {
  description = "What the application says."
  type        = string
}

module "tags" {
  source    = "../../../../modules/tags"
  component = "app"
}

resource "terraform_data" "app" {
  input = { greeting = var.greeting, tags = module.tags.all }
}

output "greeting" {
  description = "What it says now."
  value       = terraform_data.app.output.greeting
}
