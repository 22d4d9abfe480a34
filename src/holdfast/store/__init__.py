"""The run store: everything that must outlive a run."""
