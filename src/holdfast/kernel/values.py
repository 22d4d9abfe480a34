"""How values are declared: as the standard library's dataclasses, which is what type checkers are shown.

What runs is `late_dataclass`, the same thing in a fraction of the time.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

__all__ = ["dataclass", "field"]

if TYPE_CHECKING:
    from dataclasses import dataclass, field
else:
    from holdfast.kernel.late_dataclass import dataclass, field
