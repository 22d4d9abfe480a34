"""The only ways to touch the world: processes, environment, files, Git, clock."""
