"""Code hosts: the job of a pull request and its comments. A new one: a module and a line in `catalogue`."""
