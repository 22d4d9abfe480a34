"""Other people's programs whose findings come into the same report. `catalogue.py` names them all."""
