"""The check catalogue: rules, waivers, report formats, external tools."""
