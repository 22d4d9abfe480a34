"""The local state backend: an HTTP backend on loopback for managed states."""
