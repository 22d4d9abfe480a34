-- What people may have to hear of, noted in the transaction in which it happened, until a server has put it
-- into the outbox of the tenant. Outboxes are blobs, encrypted, and so is what an alert says.

create table alert_signals (
  number bigint generated always as identity primary key,
  tenant text not null,
  kind text not null check (kind in ('run', 'event', 'alert', 'acts')),
  -- The id of what it is about.
  subject text not null
);
create index alert_signals_by_tenant on alert_signals (tenant, number);

create table alert_outboxes (
  tenant text primary key,
  -- When there is something to send; null: nothing.
  due timestamptz,
  -- Until then a server works on it, and no other server does.
  busy_until timestamptz not null default clock_timestamp(),
  lease bigint not null default 0
);
create index alert_outboxes_by_due on alert_outboxes (due) where due is not null;

-- A trigger, so that no statement that changes a run can forget it.
create function signal_run() returns trigger language plpgsql as $$
begin
  insert into alert_signals (tenant, kind, subject) values (new.tenant, 'run', new.id);
  return null;
end
$$;
create trigger runs_signal after update of phase on runs for each row
  when (old.phase is distinct from new.phase and (new.phase in ('waiting', 'done') or old.phase = 'waiting'))
  execute function signal_run();
