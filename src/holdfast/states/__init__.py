"""Operations on states: versions, rollback, push, pull, adopt, force-unlock."""
