"""An environment that a process gets after its start, in place of the one that it was started with.

Go reads its environment when a library is loaded, from the memory in which the kernel put it, and /proc shows
that memory. So the variables are written there: libraries, programs and other processes see them as if the
process had been started with them. It is started with `ROOM`, which reserves the memory, and with `ARGUMENT`
as its last argument but one. Linux only. The supervisor loads this module, so imports are few.
"""

from __future__ import annotations

import ctypes
import os
import sys
from collections.abc import Mapping

_COUNT, _SIZE = 120, 200
ROOM: Mapping[str, str] = {
    # With another locale Python would set this variable itself, and so move the environment elsewhere.
    "LC_CTYPE": "C.UTF-8",
    **{f"RESERVED_{number:03}": "." * (_SIZE - len("RESERVED_000=") - 1) for number in range(_COUNT)},
}
ARGUMENT = "." * 200
_SPACE = sum(len(name) + len(value) + 2 for name, value in ROOM.items())


def fits(environment: Mapping[str, str], argument: str) -> bool:
    size = sum(len(text) + 1 for text in _texts(environment))
    return len(environment) <= _COUNT and size <= _SPACE and len(os.fsencode(argument)) <= len(ARGUMENT)


def replace(environment: Mapping[str, str], argument: str) -> None:
    """Replace the environment of this process, and `ARGUMENT`. Both must fit."""
    pointers = ctypes.POINTER(ctypes.c_void_p).in_dll(ctypes.CDLL(None), "environ")
    address = pointers[0]
    if address is None or ctypes.string_at(address) != b"LC_CTYPE=C.UTF-8":
        raise RuntimeError("the environment is not where the process was given it")
    # In memory the variables follow the arguments. Each text ends with a zero.
    place = address - len(os.fsencode(sys.argv[-1])) - len(ARGUMENT) - 2
    if ctypes.string_at(place) != ARGUMENT.encode():
        raise RuntimeError("the reserved argument is not where the process was given it")
    ctypes.memmove(place, os.fsencode(argument).ljust(len(ARGUMENT), b"\0"), len(ARGUMENT))
    os.environ.clear()
    ctypes.memset(address, 0, _SPACE)
    for index, text in enumerate(_texts(environment)):
        ctypes.memmove(address, text, len(text))
        pointers[index] = address
        address += len(text) + 1
    pointers[len(environment)] = None
    os.environ.update(environment)


def overwrite(name: str, value: str) -> None:
    """Replace the value of one variable where the process was given it. It must fit; spaces fill the rest."""
    start = os.fsencode(f"{name}=")
    pointers = ctypes.POINTER(ctypes.c_void_p).in_dll(ctypes.CDLL(None), "environ")
    index = 0
    while (address := pointers[index]) is not None:
        text = ctypes.string_at(address)
        if text.startswith(start):
            new = os.fsencode(value).ljust(len(text) - len(start))
            if len(new) > len(text) - len(start):
                raise RuntimeError(f"there is no room for the value of {name}")
            ctypes.memmove(address + len(start), new, len(new))
            os.environ[name] = value
            return
        index += 1
    raise RuntimeError(f"{name} is not in the environment")


def _texts(environment: Mapping[str, str]) -> list[bytes]:
    return [os.fsencode(f"{name}={value}") for name, value in environment.items()]
