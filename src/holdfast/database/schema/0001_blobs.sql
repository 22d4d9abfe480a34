-- The run store of the server: names to encrypted bytes, as in a folder or in S3.
create table blobs (
  tenant text not null,
  name text collate "C" not null,
  data bytea not null,
  tag text not null,
  written timestamptz not null default now(),
  primary key (tenant, name)
);

-- Encrypted bytes do not compress.
alter table blobs alter column data set storage external;
