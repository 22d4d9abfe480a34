"""Code, output contract and the checks themselves: HF3xx, HF4xx, HF6xx, HF7xx, HF9xx."""
