"""Simulated SD-WAN services, and providers that talk to them; README.md says how to use them."""
