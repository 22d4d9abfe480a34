"""The process that runs Terraform and outlives its caller: journal, local state backend, heartbeat."""
