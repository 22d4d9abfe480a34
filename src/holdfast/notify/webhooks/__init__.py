"""Webhooks of code hosts: what an event asks for, and what is done about it."""
