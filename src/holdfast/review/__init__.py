"""Checks, policies and guard: from a plan to a decision."""
