terraform {
  required_version = ">= 1.5"

  backend "local" {}
}

variable "greeting" {
  description = "Greeting of the application."
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
  description = "Greeting of the application."
  value       = terraform_data.app.output.greeting
}
