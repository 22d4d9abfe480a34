"""Start a program without Landlock: `python no_kernel_help.py [namespaces] -- PROGRAM ARGUMENT…`.

A seccomp filter makes the system calls fail as they do on an older kernel or in a strict container; with
`namespaces`, user namespaces are refused too.
"""

from __future__ import annotations

import ctypes
import os
import platform
import struct
import sys

LOAD, EQUAL, RETURN = 0x20, 0x15, 0x06
ALLOW, ERRNO = 0x7FFF0000, 0x00050000
NO_SYSTEM_CALL, NOT_PERMITTED = 38, 1
UNSHARE = {"x86_64": 272, "aarch64": 97}[platform.machine()]


class Program(ctypes.Structure):
    _fields_ = (("length", ctypes.c_ushort), ("filter", ctypes.c_char_p))


def main() -> None:
    options, command = sys.argv[1 : sys.argv.index("--")], sys.argv[sys.argv.index("--") + 1 :]
    refused = [(number, NO_SYSTEM_CALL) for number in (444, 445, 446)]
    refused += [(UNSHARE, NOT_PERMITTED)] if "namespaces" in options else []
    steps = [struct.pack("=HBBI", LOAD, 0, 0, 0)]
    for number, error in refused:
        steps.append(struct.pack("=HBBI", EQUAL, 0, 1, number))
        steps.append(struct.pack("=HBBI", RETURN, 0, 0, ERRNO | error))
    steps.append(struct.pack("=HBBI", RETURN, 0, 0, ALLOW))
    libc = ctypes.CDLL(None, use_errno=True)
    if os.geteuid() != 0:
        libc.prctl(38, 1, 0, 0, 0)
    program = Program(len(steps), b"".join(steps))
    if libc.prctl(22, 2, ctypes.byref(program), 0, 0) != 0:
        raise OSError(ctypes.get_errno(), "no seccomp")
    os.execv(command[0], command)  # noqa: S606 - that is its purpose


if __name__ == "__main__":
    main()
