"""After a crash: evidence, classification, reconcile."""
