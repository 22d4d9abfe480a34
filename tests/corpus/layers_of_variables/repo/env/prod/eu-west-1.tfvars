name = "app-eu"
