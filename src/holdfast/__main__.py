"""Where the program starts. `--version` answers before anything else is imported."""

from __future__ import annotations

import os
import sys


def main() -> None:
    arguments = sys.argv[1:]
    if None in (sys.stdin, sys.stdout, sys.stderr):
        from holdfast.system.standard_streams import open_closed  # noqa: PLC0415 - hardly ever needed

        open_closed()
    if arguments == ["--version"]:
        from holdfast import __version__  # noqa: PLC0415 - nothing else is needed for this answer

        sys.stdout.write(f"holdfast {__version__}\n")
        return
    import gc  # noqa: PLC0415 - as above

    # A command lives for seconds: to look for rings among all that it loads costs more than they do.
    gc.set_threshold(100_000, 20, 50)
    try:
        from holdfast.cli.app import run  # noqa: PLC0415 - the whole command line

        code = run(arguments)
    except KeyboardInterrupt:
        sys.exit("cancelled")
    _exit(code)


def _exit(code: int) -> None:
    """At once: to take apart all that was loaded costs more than many a command."""
    for stream in (sys.stdout, sys.stderr):
        try:
            stream.flush()
        except (OSError, ValueError):  # Its reader is gone, or it is closed.
            continue
    os._exit(code)


if __name__ == "__main__":
    if not sys.flags.safe_path:
        # `python -m holdfast` would import modules from the current folder, which may be the repository.
        del sys.path[0]
    main()
