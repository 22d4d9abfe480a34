-- Devices by API: blueprints that the server offers, devices, and the events that change them. Payloads and
-- contents of blueprints are in blobs, encrypted.

create table blueprints (
  name text primary key,
  version text not null,
  -- SHA-256 of its packed folder.
  digest text not null,
  document jsonb not null,
  -- Whether the server that started last has it.
  offered boolean not null default true,
  written timestamptz not null default now()
);

create table devices (
  tenant text not null,
  blueprint text not null,
  resource_id text not null,
  -- `incomplete`: its creation failed, or what a failed event left is not known.
  status text not null default 'absent' check (status in ('absent', 'present', 'incomplete')),
  -- The last event that succeeded: its payload is what the device has.
  event text,
  version text,
  digest text,
  labels jsonb not null default '{}',
  created timestamptz not null default clock_timestamp(),
  updated timestamptz not null default clock_timestamp(),
  -- What the last look at its drift found.
  drift jsonb,
  drift_checked timestamptz,
  drift_change text,
  primary key (tenant, blueprint, resource_id)
);
create index devices_by_drift on devices (drift_checked nulls first) where status <> 'absent';

create table events (
  id text primary key,
  tenant text not null,
  number bigint generated always as identity,
  blueprint text not null,
  version text not null,
  digest text not null,
  resource_id text not null,
  action text not null,
  -- `running`: it has a change, whose phase says more.
  status text not null default 'queued'
    check (status in ('queued', 'running', 'succeeded', 'failed', 'superseded', 'cancelled', 'unknown')),
  stack text not null,
  source text not null references sources (id),
  requester jsonb not null,
  -- Whom limits count: the subject of the requester.
  client text not null,
  reason text not null default '',
  requires_approval boolean not null default false,
  labels jsonb not null default '{}',
  environments text[] not null default '{}',
  worker_labels text[] not null default '{}',
  -- At most so many run at the same time with this key; null: no limit.
  concurrency_key text not null,
  concurrency integer,
  -- The ids of its next, or newest, change and run.
  change text not null,
  run text not null,
  attempts integer not null default 0,
  -- How often a failed attempt is repeated, and after how many seconds.
  retries integer not null default 0,
  retry_wait double precision not null default 0,
  next_try timestamptz,
  superseded_by text,
  -- The event that it repeats, or whose payload it has.
  origin text,
  error jsonb,
  created timestamptz not null default clock_timestamp(),
  updated timestamptz not null default clock_timestamp()
);
create index events_by_tenant on events (tenant, number);
create index events_of_device on events (tenant, blueprint, resource_id, number);
create index events_open on events (status, number) where status in ('queued', 'running', 'unknown');
create index events_by_change on events (change);
-- A device has one event at a time. One whose outcome is unknown keeps it.
create unique index events_one_at_a_time on events (tenant, blueprint, resource_id)
  where status in ('running', 'unknown');

-- Requests that were sent before.
create table idempotency_keys (
  tenant text not null,
  key text not null,
  request bytea not null,
  event text not null,
  created timestamptz not null default clock_timestamp(),
  primary key (tenant, key)
);
create index idempotency_keys_by_age on idempotency_keys (created);

-- Of a change that an event started.
alter table changes add column event text;
