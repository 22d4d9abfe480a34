"""Gates: checks of the live system, repeated until they pass or their deadline is over."""
