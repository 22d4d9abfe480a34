"""GitOps boundary and backends: HF1xx."""
