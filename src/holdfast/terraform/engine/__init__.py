"""Engines: discovery, selection, the worker pool, environment, credentials, provider mirror."""
