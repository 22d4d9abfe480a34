-- Runs on the server: where their code comes from, changes and their runs, and the workers. What they contain
-- (uploads, variables, plans, results, logs) is in blobs, encrypted.

create table repositories (
  id text primary key,
  tenant text not null,
  name text not null,
  url text not null,
  branch text not null,
  -- A reference to a secret, never the secret.
  credentials text,
  created timestamptz not null default now(),
  created_by text not null,
  unique (tenant, name)
);

create table sources (
  id text primary key,
  tenant text not null,
  kind text not null check (kind in ('upload', 'commit')),
  -- It may have been removed since.
  repository text,
  -- A branch, a tag or a commit, as it was asked for; null: the default branch.
  wanted text,
  -- The full id of the commit, once a worker has resolved it.
  revision text,
  -- The commit to compare with, of a pull request.
  base text,
  -- SHA-256 of an upload.
  digest text,
  size bigint not null default 0,
  created timestamptz not null default now(),
  created_by text not null,
  -- When the content of an upload is removed, unless it is used until then.
  expires timestamptz
);
create index sources_by_expiry on sources (expires);

create table changes (
  id text primary key,
  tenant text not null,
  number bigint generated always as identity,
  operation text not null check (operation in ('plan', 'apply', 'destroy', 'reconcile')),
  source text not null references sources (id),
  -- The principal that asked for it, and for whom a worker acts.
  requester jsonb not null,
  reason text not null default '',
  -- The stacks as they were asked for; null once a worker has selected them.
  patterns text[],
  phase text not null default 'queued' check (phase in ('queued', 'running', 'waiting', 'done')),
  environments text[] not null default '{}',
  targets text[] not null default '{}',
  priority integer not null,
  worker text,
  -- Of the newest claim: a worker with an older one writes nothing.
  fence bigint not null default 0,
  beat timestamptz,
  -- A decision arrived while it ran: it is queued once more.
  woken boolean not null default false,
  cancel timestamptz,
  cancelled_by text,
  error jsonb,
  created timestamptz not null default clock_timestamp(),
  started timestamptz,
  ended timestamptz
);
create index changes_by_tenant on changes (tenant, number);
create index changes_by_source on changes (source);
create index changes_in_progress on changes (phase, priority desc, number) where phase <> 'done';

create table runs (
  id text primary key,
  tenant text not null,
  change text not null references changes (id),
  number bigint generated always as identity,
  stack text not null,
  operation text not null,
  environment text,
  target text,
  phase text not null default 'queued'
    check (phase in ('queued', 'planning', 'waiting', 'applying', 'done')),
  -- Null while it is queued, planning or applying.
  status text,
  digest text,
  retried_from text,
  created timestamptz not null default clock_timestamp(),
  started timestamptz,
  ended timestamptz,
  unique (change, stack),
  check ((status is null) = (phase in ('queued', 'planning', 'applying')))
);
create index runs_by_tenant on runs (tenant, number);
create index runs_in_progress on runs (tenant, stack, number) where phase <> 'done';

create table workers (
  id text primary key,
  -- Null: for all tenants.
  tenant text,
  host text not null,
  slot integer not null,
  labels jsonb not null default '{}',
  engines text[] not null default '{}',
  version text not null,
  started timestamptz not null default clock_timestamp(),
  beat timestamptz not null default clock_timestamp(),
  phase text not null default 'ready' check (phase in ('ready', 'draining', 'gone'))
);
