-- When a person asked to stop a cancelled change at once.
alter table changes add column forced timestamptz;
