-- How many alerts are open and how many messages have not arrived, as the server that worked on an outbox last
-- counted them: outboxes are encrypted.
alter table alert_outboxes
  add column open integer not null default 0,
  add column pending integer not null default 0,
  add column dead integer not null default 0;
