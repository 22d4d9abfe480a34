"""The run store: marks, states' places, what must outlive a run."""
