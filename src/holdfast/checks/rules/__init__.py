"""One rule per file. `catalogue.py` names them all."""
