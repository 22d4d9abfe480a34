-- Who holds a lock: the verified subject, not only its name.
alter table state_locks add column holder text;
-- The deleted state whose last version the first one of this state must follow.
alter table states add column follows text references states (id);
-- Whose run it is, and of which stack: the folder runs/RUN of the run store.
create table run_folders (
  tenant text not null,
  run text not null,
  stack text not null,
  holder text not null,
  primary key (tenant, run)
);
