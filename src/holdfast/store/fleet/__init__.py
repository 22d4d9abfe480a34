"""Devices by API on the server: blueprints, devices and events."""
