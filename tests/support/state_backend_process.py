"""The state backend as a process of its own, to be killed.

Reads the address of its database as JSON from standard input, and prints its port when it listens.
"""

from __future__ import annotations

import json
import sys
import time

from state_backend_made import state_backend

from holdfast.database.database import Database, DatabaseAddress


def main() -> None:
    address = DatabaseAddress(parameters=json.loads(sys.stdin.readline()), shown="the database")
    with Database.open(address, size=8, wait_seconds=5) as database, state_backend(database) as backend:
        sys.stdout.write(f"{backend.port}\n")
        sys.stdout.flush()
        while True:
            time.sleep(60)


main()
