"""Devices by API on the server: what routes of events do, who ends events, and drift."""
