-- When a run began to apply its plan: whatever became of it, it may have changed the state.
alter table runs add column apply_began timestamptz;
