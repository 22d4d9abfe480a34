-- Webhooks of code hosts: events that were received, and the changes that they started. The settings of a
-- webhook, with its secrets, are in a blob, encrypted.

create table webhook_events (
  -- Also the id of the change that it starts.
  id text primary key,
  tenant text not null,
  repository text not null,
  -- What the host calls it; and SHA-256 of its body, which is what the host signs.
  delivery text not null,
  body bytea not null,
  pull_request integer not null,
  -- The newest commit of the pull request when the event happened, and when that was.
  head text,
  at timestamptz not null,
  event jsonb not null,
  received timestamptz not null default clock_timestamp(),
  attempts integer not null default 0,
  next_try timestamptz not null default clock_timestamp(),
  done timestamptz,
  outcome text,
  unique (repository, delivery),
  unique (repository, body)
);
create index webhook_events_to_do on webhook_events (next_try) where done is null;
create index webhook_events_by_request on webhook_events (repository, pull_request);

create table webhook_changes (
  change text primary key,
  repository text not null,
  pull_request integer not null,
  head text not null,
  -- Phase and fence of the change in the newest comment.
  reported text,
  reported_at timestamptz,
  attempts integer not null default 0,
  next_try timestamptz not null default clock_timestamp()
);
create index webhook_changes_by_request on webhook_changes (repository, pull_request);
