"""All that speaks Terraform: argv, environment, engines, work directories, plan and state JSON."""
