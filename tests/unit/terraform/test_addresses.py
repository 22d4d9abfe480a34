"""Addresses are sorted as a person counts."""

from __future__ import annotations

from holdfast.terraform.addresses import address_order, covers, import_blocks, is_address


def test_numbers_in_addresses_sort_as_numbers() -> None:
    """`node[2]` comes before `node[10]`, and a module's resources stay together."""
    addresses = ["module.b[10].x.a", "a.node[10]", "a.node[2]", "module.b[9].x.a", "a.node", 'a.node["z"]']
    assert sorted(addresses, key=address_order) == [
        "a.node",
        "a.node[2]",
        "a.node[10]",
        'a.node["z"]',
        "module.b[9].x.a",
        "module.b[10].x.a",
    ]


def test_import_blocks_are_plain_text() -> None:
    """No id is ever read as a template, an escape or the end of its own quotes."""
    blocks = import_blocks(
        [
            ('module.m["x"].lab_object.a[0]', "i-1"),
            ("lab_object.a", 'a"b\\c${x}%{if}\n\x07é'),
        ]
    )
    assert blocks == (
        'import {\n  to = module.m["x"].lab_object.a[0]\n  id = "i-1"\n}\n'
        "\n"
        'import {\n  to = lab_object.a\n  id = "a\\"b\\\\c$${x}%%{if}\\n\\u0007é"\n}\n'
    )
    assert import_blocks([]) == ""


def test_addresses_of_resources_instances_and_modules_are_recognised() -> None:
    """What could be an option, or ends an `import` block, is none."""
    for address in ("a.b", "a.b[0]", 'a.b["x y"]', "module.a", 'module.a["k"].data.a.b[0]', r'a.b["\"]"]'):
        assert is_address(address), address
    for text in ("", "a", "-lock=false", "a.b[x]", "a.b }\nresource", "a..b", "a.b ", "a.b[0]["):
        assert not is_address(text), text


def test_an_address_covers_its_instances_and_what_is_in_a_module() -> None:
    assert all(covers("module.a", other) for other in ("module.a.x.y", 'module.a["k"].x.y', "module.a"))
    assert covers("x.y", "x.y[1]")
    assert not any(covers("x.y", other) for other in ("x.yz", "x", "module.x.y"))
