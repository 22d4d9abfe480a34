"""The plan: reading `show -json`, its values, reasons and tags."""
