"""Alerts: what people should know of until it is over, routed to channels."""
