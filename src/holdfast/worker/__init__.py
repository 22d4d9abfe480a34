"""`holdfast worker`: takes changes from the queue of the server and runs them as the command line does."""
