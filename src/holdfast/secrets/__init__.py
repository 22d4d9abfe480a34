"""Secret references and their sources, encryption, redaction."""
