const { execSync } = require("node:child_process");

const environment = process.argv[2];
execSync(`terraform -chdir=app init -backend-config=key=app-${environment}.tfstate`);
execSync(`terraform -chdir=app apply -var-file=${environment}.tfvars`);
