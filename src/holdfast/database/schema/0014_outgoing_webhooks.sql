-- Outgoing webhooks, and what is still to be sent. The address of a webhook may contain a token: it is in a
-- blob with its secret, encrypted. A body is built when it is sent, so none is stored.

create table outgoing_webhooks (
  id text primary key,
  tenant text not null,
  events text[] not null,
  created timestamptz not null default clock_timestamp(),
  created_by text not null,
  -- Its receiver answered that it is gone.
  disabled timestamptz,
  -- Until then a server sends one of its deliveries, and no other server does.
  busy_until timestamptz not null default clock_timestamp(),
  lease integer not null default 0
);
create index outgoing_webhooks_by_tenant on outgoing_webhooks (tenant, id);

create table outgoing_deliveries (
  -- Also what receivers recognise a repeated one by.
  id text primary key,
  number bigint generated always as identity,
  tenant text not null,
  webhook text not null,
  kind text not null,
  -- The id of what the delivery is about.
  subject text not null,
  created timestamptz not null default clock_timestamp(),
  attempts integer not null default 0,
  next_try timestamptz not null default clock_timestamp(),
  delivered timestamptz,
  dead timestamptz,
  error text,
  unique (webhook, kind, subject)
);
create index outgoing_deliveries_to_do on outgoing_deliveries (webhook, next_try)
  where delivered is null and dead is null;
create index outgoing_deliveries_not_delivered on outgoing_deliveries (tenant) where delivered is null;
create index outgoing_deliveries_by_webhook on outgoing_deliveries (webhook, number);
