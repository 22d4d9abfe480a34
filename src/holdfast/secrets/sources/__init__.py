"""Where secrets are read over a network: one module for each kind of source, one interface for all."""
