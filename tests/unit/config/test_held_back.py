from __future__ import annotations

from holdfast.config.held_back import held_back_entries

TEXT = """
stacks:
  - name: live
# - name: not counted, because it is above
# Held back: these stacks may have states.
#
# A note.
#  # one root module
#  - name: a
#    hooks:
#      - when: before_plan
#    generate:
#      x.yaml:
#        content: |
#          - name: x
# - folder: b
"""


def test_only_entries_count() -> None:
    """Not the lists in them, and not what is above."""
    assert held_back_entries(TEXT) == 2
    assert held_back_entries(f"{TEXT}\n# … and 3 more held-back entries. List them:\n") == 5
    assert held_back_entries("# - name: a\n") == 0
