"""Where scenarios of kills are played, and the table of how they came out."""

from __future__ import annotations
