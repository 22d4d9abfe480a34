"""Sources by reference, encryption, redaction."""
