terraform {
  required_version = ">= 1.9"

  required_providers {
    cato = {
      source = "catonetworks/cato"
      # 0.0.91 stopped logging the pre-shared key; 0.0.94 stopped sending network ranges that did not change.
      version = ">= 0.0.94"
    }
  }
}
