-- States, their versions and locks. A deleted state keeps its versions; the next write under its name starts
-- a new state.

create table states (
  id text primary key,
  tenant text not null,
  name text not null,
  -- The number of the current version; 0: never written.
  version bigint not null default 0,
  -- The newest fencing number that was given.
  fence bigint not null default 0,
  -- The lock id that was released last.
  released text,
  unlocked_writes boolean not null default false,
  created timestamptz not null default now(),
  deleted timestamptz
);
create unique index states_by_name on states (tenant, name) where deleted is null;

create table state_versions (
  tenant text not null,
  state text not null references states (id),
  number bigint not null,
  serial numeric(20) not null,
  lineage text not null,
  -- Neither resources nor outputs.
  empty boolean not null,
  -- Managed resources; null: OpenTofu encrypted the state.
  resources bigint,
  -- Of the content: bytes, SHA-256, and the MD5 of Terraform's protocol.
  size bigint not null,
  digest text not null,
  md5 bytea not null,
  -- Compressed and encrypted; null: purged.
  data bytea,
  written timestamptz not null default now(),
  who text not null,
  why text not null,
  run text,
  fence bigint,
  -- Why retention keeps it.
  pinned text,
  -- Who purged its content, and why.
  purged text,
  -- How many attributes contain secrets; null: not scanned.
  secrets bigint,
  primary key (state, number)
);
-- It is compressed already.
alter table state_versions alter column data set storage external;

create table state_locks (
  state text primary key references states (id),
  tenant text not null,
  id text not null,
  info bytea not null,
  kind text not null check (kind in ('terraform', 'run')),
  who text not null,
  run text,
  number bigint not null,
  taken timestamptz not null,
  beat timestamptz not null,
  -- Null: held until it is released.
  expires timestamptz,
  taken_from text
);

-- Who asked for a lock and did not get it.
create table state_lock_queue (
  state text not null references states (id),
  tenant text not null,
  id text not null,
  who text not null,
  run text,
  first_asked timestamptz not null default clock_timestamp(),
  last_asked timestamptz not null default clock_timestamp(),
  primary key (state, id)
);

-- What people did to a state or its lock, apart from ordinary writes.
create table state_events (
  number bigint generated always as identity primary key,
  tenant text not null,
  state text not null references states (id),
  at timestamptz not null default clock_timestamp(),
  who text not null,
  what text not null,
  reason text
);
create index state_events_by_state on state_events (state, number);
