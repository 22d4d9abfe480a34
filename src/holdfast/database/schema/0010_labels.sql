-- Labels that a worker must have to run a change, as `network=internal`.
alter table changes add column labels text[] not null default '{}';
