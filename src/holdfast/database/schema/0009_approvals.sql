-- Groups of the person that a token belongs to: rules about approvals name them.
alter table tokens add column groups text[] not null default '{}';

-- When a run got its phase: a plan does not wait for a decision for ever.
alter table runs add column since timestamptz;
