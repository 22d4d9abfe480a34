"""What the executable in the mirror starts: python -I -S main.py --version X --packages FOLDER...

`-S` keeps the interpreter from looking around for `.pth` files and the like, which takes time at every start;
so the folders of installed packages come as arguments.
"""

from __future__ import annotations

import sys
from pathlib import Path


def main(arguments: list[str]) -> None:
    match arguments:
        case ["--version", version, "--packages", *packages]:
            sys.path += [str(Path(__file__).resolve().parents[1]), *packages]
        case _:
            sys.exit("Usage: main.py --version X.Y.Z --packages FOLDER...")
    from provider import runner  # noqa: PLC0415 (importable only now)
    from provider.objects import LabProvider  # noqa: PLC0415

    runner.serve(LabProvider(version))


if __name__ == "__main__":
    main(sys.argv[1:])
