"""Where alerts are sent to: one module per kind of channel."""
