terraform {
  backend "local" {}
}

variable "greeting" { type = string }

module "tags" {
  source    = "../../../../modules/tags"
  component = "app"
}

resource "terraform_data" "app" {
  input = { greeting = var.greeting, tags = module.tags.all }
}

output "greeting" { value = terraform_data.app.output.greeting }
