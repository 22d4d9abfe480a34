"""What the executable in a mirror starts: python -I -S main.py PROVIDER --version X --packages FOLDER...

`-S` keeps the interpreter from looking around for `.pth` files and the like, which takes time at every start;
so the folders of installed packages come as arguments. Imports are late: a provider loads only what is its
own, and `runner` first, which keeps gRPC from loading what is not needed; none of them loads pathlib.
"""

from __future__ import annotations

import sys


def main(arguments: list[str]) -> None:
    match arguments:
        case [name, "--version", version, "--packages", *packages]:
            sys.path += [__file__.rpartition("/provider/")[0], *packages]
        case _:
            sys.exit("Usage: main.py PROVIDER --version X.Y.Z --packages FOLDER...")
    from provider import runner  # noqa: PLC0415 (importable only now)

    match name:
        case "lab":
            from provider.objects import LabProvider  # noqa: PLC0415
            from provider.servicer import LabServicer  # noqa: PLC0415

            runner.serve(LabServicer(LabProvider(version)))
        case "cato":
            from sdwan.cato_provider import CatoProvider  # noqa: PLC0415
            from sdwan.nested import NestedServicer  # noqa: PLC0415

            runner.serve(NestedServicer(CatoProvider(version)))
        case "restapi":
            from sdwan.nested import NestedServicer  # noqa: PLC0415
            from sdwan.restapi_provider import RestApiProvider  # noqa: PLC0415

            runner.serve(NestedServicer(RestApiProvider()))
        case _:
            sys.exit(f"There is no provider {name}.")


if __name__ == "__main__":
    main(sys.argv[1:])
