"""What is wrong before it runs: a catalogue of rules, one per file, and the report of what they found."""
