"""The life of a run and of a change. Only this room puts stages in order."""
