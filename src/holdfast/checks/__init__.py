"""Checks of code, plans and states: rules, waivers, report formats, external tools."""
