-- The token that created a token: it is revoked with that one.
alter table tokens add column parent text;
create index tokens_by_parent on tokens (parent);
