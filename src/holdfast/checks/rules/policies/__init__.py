"""Policy documents: HF5xx."""
