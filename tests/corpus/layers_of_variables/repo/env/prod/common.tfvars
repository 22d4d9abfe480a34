name = "app-prod"
