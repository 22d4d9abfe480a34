"""The only modules that touch the outside: processes, environment, files, Git, HTTP, clock."""
