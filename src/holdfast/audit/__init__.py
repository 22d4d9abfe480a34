"""The record: who did what, when, why and how it ended, in a chain that shows when it was touched."""
