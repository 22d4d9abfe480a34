"""Runs the rules: catalogue, severity, waivers, coverage, report, rule pages."""
