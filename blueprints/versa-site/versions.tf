terraform {
  required_version = ">= 1.9"

  required_providers {
    restapi = {
      source = "Mastercard/restapi"
      # 3.0.0 cannot plan any more once an object is gone from the server.
      version = "~> 2.0, >= 2.0.1"
    }
  }
}
