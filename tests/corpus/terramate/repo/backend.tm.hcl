generate_hcl "_backend.tf" {
  content {
    terraform {
      backend "s3" {
        key = "${terramate.stack.id}.tfstate"
      }
    }
  }
}
