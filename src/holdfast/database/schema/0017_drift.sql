-- Drift of the stacks of registered repositories: when each is looked at, and what the last look said. Values
-- are in blobs of the run store (drift/STACK), encrypted; none are here.

create table drift_repositories (
  tenant text not null,
  repository text not null,
  -- When its schedule and its stacks were last read, and the commit they are of.
  listed timestamptz,
  source text,
  schedule text,
  zone text not null default 'UTC',
  spread double precision not null default 0,
  -- The change that reads them now, and since when.
  change text,
  submitted timestamptz,
  error jsonb,
  primary key (tenant, repository)
);

create table drift_stacks (
  tenant text not null,
  stack text not null,
  repository text not null,
  source text,
  environment text,
  production boolean not null default true,
  target text,
  schedule text,
  -- When it is looked at next; null: only when somebody asks.
  due timestamptz,
  attempts integer not null default 0,
  -- The change that looks or heals now, and since when.
  change text,
  healing boolean not null default false,
  submitted timestamptz,
  status text not null default 'not_checked',
  unapplied boolean not null default false,
  findings integer not null default 0,
  checked timestamptz,
  tried timestamptz,
  primary key (tenant, stack)
);
create index drift_stacks_due on drift_stacks (due) where change is null and due is not null;
create index drift_stacks_in_progress on drift_stacks (submitted) where change is not null;
create index drift_stacks_by_status on drift_stacks (tenant, status);
