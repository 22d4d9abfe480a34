"""Devices by API: blueprints, and the payloads that events carry."""
