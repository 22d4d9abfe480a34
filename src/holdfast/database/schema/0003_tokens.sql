-- Tokens of the server. Of a token's secret only a digest is stored.
create table tokens (
  id text primary key,
  tenant text not null,
  digest bytea not null,
  name text not null,
  kind text not null check (kind in ('token', 'oidc', 'run')),
  role text not null,
  stacks text[] not null,
  states text[] not null,
  -- States that a run may read beside its own.
  reads text[] not null default '{}',
  -- What the issuer of a CI token verified.
  claims jsonb not null default '{}',
  created timestamptz not null default now(),
  created_by text not null,
  -- Null: until it is revoked.
  expires timestamptz,
  last_used timestamptz,
  revoked timestamptz,
  revoked_by text
);
create index tokens_by_tenant on tokens (tenant, id);

-- CI tokens that were exchanged: each only once.
create table exchanged_tokens (
  issuer text not null,
  token text not null,
  expires timestamptz not null,
  primary key (issuer, token)
);
create index exchanged_tokens_by_expiry on exchanged_tokens (expires);
