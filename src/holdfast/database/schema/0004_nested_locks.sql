-- Terraform with the token of a run takes its lock within the lease of that run.
alter table state_locks add column nested text;
alter table state_locks add column nested_info bytea;
