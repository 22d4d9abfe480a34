"""Which engine runs a stack, and why."""

from __future__ import annotations

import contextlib
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from holdfast.config.engine import EnginePin, EngineUse
from holdfast.kernel.errors import EngineError, Exit, UsageError
from holdfast.terraform.engine.interface import EngineId, EngineKind, Product
from holdfast.terraform.engine.selection import (
    EngineRequirement,
    EngineSelection,
    depends_on_last_apply,
    lock_product,
    select_engine,
)


def engine(kind: EngineKind, product: Product, version: str) -> EngineId:
    return EngineId(kind=kind, product=product, version=version, path=f"/{kind}/{product}-{version}")


EMBEDDED = engine(EngineKind.EMBEDDED, Product.TERRAFORM, "1.15.5")
NEW = engine(EngineKind.BINARY, Product.TERRAFORM, "1.16.4")
OLD = engine(EngineKind.BINARY, Product.TERRAFORM, "1.11.4")
TOFU = engine(EngineKind.BINARY, Product.TOFU, "1.12.6")
OLD_TOFU = engine(EngineKind.BINARY, Product.TOFU, "1.8.0")
EMBEDDED_TOFU = engine(EngineKind.EMBEDDED, Product.TOFU, "1.12.6")
BOTH = (EMBEDDED, EMBEDDED_TOFU, NEW, TOFU, OLD, OLD_TOFU)
ALL = (EMBEDDED, NEW, TOFU, OLD, OLD_TOFU)


_PREFERS = "both products fit, %s is preferred; to change it: `engine: {use: %s}`"


def pin(use: EngineUse = EngineUse.AUTO, version: str | None = None) -> EnginePin:
    return EnginePin(use=use, version=version)


@pytest.mark.parametrize(
    ("wish", "engines", "expected", "why"),
    [
        pytest.param(
            EngineRequirement(stack="s"),
            ALL,
            EMBEDDED,
            _PREFERS % ("embedded Terraform", "tofu"),
            id="embedded",
        ),
        pytest.param(
            EngineRequirement(stack="s"),
            (NEW, TOFU, OLD),
            NEW,
            _PREFERS % ("Terraform", "tofu"),
            id="highest-binary",
        ),
        pytest.param(
            EngineRequirement(stack="s"),
            (TOFU, OLD),
            OLD,
            _PREFERS % ("Terraform", "tofu"),
            id="terraform-before-tofu",
        ),
        pytest.param(
            EngineRequirement(stack="s"),
            (TOFU,),
            TOFU,
            "the only product installed",
            id="tofu-if-alone",
        ),
        pytest.param(
            EngineRequirement(stack="s", required=("~> 1.15.0",)),
            ALL,
            EMBEDDED,
            "required_version ~> 1.15.0",
            id="suits",
        ),
        pytest.param(
            EngineRequirement(stack="s", required=(">= 1.16",)),
            ALL,
            NEW,
            "required_version >= 1.16",
            id="too-old",
        ),
        pytest.param(
            EngineRequirement(stack="s", required=(">= 1.9", "< 1.12")),
            ALL,
            OLD,
            "required_version >= 1.9; required_version < 1.12",
            id="two-demands",
        ),
        pytest.param(
            EngineRequirement(stack="s", version_file=(".terraform-version", "1.11.4")),
            ALL,
            OLD,
            ".terraform-version 1.11.4",
            id="version-file",
        ),
        pytest.param(
            EngineRequirement(stack="s", version_file=(".terraform-version", "latest")),
            ALL,
            EMBEDDED,
            ".terraform-version latest",
            id="version-file-without-a-version",
        ),
        pytest.param(
            EngineRequirement(stack="s", tofu_reason="main.tofu"),
            ALL,
            TOFU,
            "main.tofu",
            id="tofu-before-everything",
        ),
        pytest.param(
            EngineRequirement(stack="s", tofu_reason="encryption", config_pin=pin(EngineUse.BINARY)),
            ALL,
            TOFU,
            "encryption; `use: binary`",
            id="tofu-binary",
        ),
        pytest.param(
            EngineRequirement(
                stack="s",
                tofu_reason=".opentofu-version",
                version_file=(".opentofu-version", "1.8.0"),
            ),
            ALL,
            OLD_TOFU,
            ".opentofu-version; .opentofu-version 1.8.0",
            id="opentofu-version",
        ),
        pytest.param(
            EngineRequirement(stack="s", stack_pin=pin(EngineUse.TOFU)),
            ALL,
            TOFU,
            "`use: tofu`",
            id="stack-says-tofu",
        ),
        pytest.param(
            EngineRequirement(stack="s", stack_pin=pin(EngineUse.TERRAFORM)),
            ALL,
            EMBEDDED,
            "`use: terraform`",
            id="stack-says-terraform",
        ),
        pytest.param(
            EngineRequirement(stack="s", config_pin=pin(EngineUse.BINARY)),
            ALL,
            NEW,
            "`use: binary`; " + _PREFERS % ("Terraform", "tofu"),
            id="config-binary",
        ),
        pytest.param(
            EngineRequirement(stack="s", stack_pin=pin(EngineUse.EMBEDDED), config_pin=pin(EngineUse.BINARY)),
            ALL,
            EMBEDDED,
            "`use: embedded`",
            id="stack-before-config",
        ),
        pytest.param(
            EngineRequirement(
                stack="s", stack_pin=pin(version="1.16.4"), config_pin=pin(EngineUse.BINARY, "1.11.4")
            ),
            ALL,
            NEW,
            "`use: binary`; engine.version 1.16.4 of the stack",
            id="stacks-version-before-configs",
        ),
        pytest.param(
            EngineRequirement(
                stack="s",
                stack_pin=pin(version="1.16.4"),
                version_file=(".terraform-version", "1.11.4"),
            ),
            ALL,
            NEW,
            "engine.version 1.16.4 of the stack",
            id="stacks-version-before-file",
        ),
        pytest.param(
            EngineRequirement(
                stack="s",
                version_file=(".terraform-version", "1.11.4"),
                config_pin=pin(version="1.16.4"),
            ),
            ALL,
            OLD,
            ".terraform-version 1.11.4",
            id="file-before-configs-version",
        ),
        pytest.param(
            EngineRequirement(stack="s", config_pin=pin(version="< 1.12")),
            ALL,
            OLD,
            "engine.version < 1.12; " + _PREFERS % ("Terraform", "tofu"),
            id="configs-version",
        ),
    ],
)
def test_the_order(
    wish: EngineRequirement, engines: tuple[EngineId, ...], expected: EngineId, why: str
) -> None:
    """OpenTofu's code goes to tofu; then the stack's pin, the configuration's, the embedded one, a binary."""
    choice = select_engine(wish, engines)
    assert choice.engine == expected
    assert choice.why == why


@pytest.mark.parametrize("by_stack", [True, False])
def test_a_configuration_that_selects_terraform_for_tofu_code(*, by_stack: bool) -> None:
    """Terraform would misread OpenTofu's code: a configuration that asks for that is a mistake."""
    wish = EngineRequirement(
        stack="net",
        tofu_reason="main.tofu",
        stack_pin=pin(EngineUse.TERRAFORM) if by_stack else None,
        config_pin=pin() if by_stack else pin(EngineUse.TERRAFORM),
    )
    with pytest.raises(UsageError) as caught:
        select_engine(wish, ALL)
    assert caught.value.problem.code == "HF-ENG-2"
    assert caught.value.exit is Exit.USAGE
    assert "main.tofu" in caught.value.problem.message
    assert "net" in caught.value.problem.message


@pytest.mark.parametrize(
    ("wish", "engines", "says"),
    [
        (EngineRequirement(stack="s"), (), "neither OpenTofu nor Terraform is installed"),
        (
            EngineRequirement(stack="s", tofu_reason="main.tofu"),
            (EMBEDDED, OLD),
            "s: needs OpenTofu (main.tofu); installed: embedded Terraform 1.15.5, Terraform 1.11.4",
        ),
        (
            EngineRequirement(stack="s", config_pin=pin(EngineUse.BINARY)),
            (EMBEDDED,),
            "s: needs a terraform or tofu binary; installed: embedded Terraform 1.15.5",
        ),
        (
            EngineRequirement(stack="s", config_pin=pin(EngineUse.TOFU)),
            (OLD,),
            "s: needs OpenTofu (`use: tofu` in holdfast.yaml); installed: Terraform 1.11.4",
        ),
        (
            EngineRequirement(stack="s", config_pin=pin(EngineUse.TERRAFORM)),
            (TOFU,),
            "s: needs Terraform (`use: terraform` in holdfast.yaml); installed: OpenTofu 1.12.6",
        ),
        (
            EngineRequirement(stack="s", config_pin=pin(EngineUse.EMBEDDED)),
            (OLD,),
            "s: needs an embedded engine; installed: Terraform 1.11.4",
        ),
        (
            EngineRequirement(stack="s", required=(">= 2",), version_file=(".terraform-version", "1.9")),
            (OLD,),
            (
                "s: needs Terraform for required_version >= 2, .terraform-version 1.9; "
                "installed: Terraform 1.11.4"
            ),
        ),
        # The same number of the other product is another program.
        (
            EngineRequirement(stack="s", version_file=(".terraform-version", "1.12.6")),
            (EMBEDDED, EMBEDDED_TOFU, TOFU),
            (
                "s: needs Terraform for .terraform-version 1.12.6; installed: "
                "embedded Terraform 1.15.5, embedded OpenTofu 1.12.6, OpenTofu 1.12.6"
            ),
        ),
    ],
)
def test_none_that_suits(wish: EngineRequirement, engines: tuple[EngineId, ...], says: str) -> None:
    """When nothing suits, the error says what is needed, why, and what there is."""
    with pytest.raises(UsageError) as caught:
        select_engine(wish, engines)
    assert caught.value.problem.code == "HF-ENG-1"
    assert caught.value.problem.message == says
    assert "holdfast tools add" in (caught.value.problem.hint or "") or wish.config_pin.use == "embedded"


@pytest.mark.parametrize(
    ("wish", "engines", "says"),
    [
        (
            {},
            (),
            "Put `tofu` or `terraform` on PATH, or run: holdfast tools add FILE. %(tofu)s. %(terraform)s.",
        ),
        (
            {"tofu_reason": "main.tofu", "version_file": (".opentofu-version", "1.9.0")},
            (EMBEDDED_TOFU,),
            "Put `tofu` 1.9.0 on PATH, or run: holdfast tools add FILE.",
        ),
        (
            {"use": EngineUse.EMBEDDED, "required": ("< 1.9",)},
            BOTH,
            "For the program: `engine: {use: binary}`.",
        ),
        (
            {"use": EngineUse.TERRAFORM, "required": ("< 1.9",)},
            (EMBEDDED_TOFU,),
            "Put `terraform` < 1.9 on PATH, or run: holdfast tools add FILE. %(terraform)s.",
        ),
        # The configuration asks for Terraform, the code for OpenTofu: what is installed need not be named.
        ({"use": EngineUse.TERRAFORM, "tofu_reason": "main.tofu"}, BOTH, "for this stack."),
        (
            {"use": EngineUse.TERRAFORM, "tofu_reason": "main.tofu", "required": ("< 1.9",)},
            (EMBEDDED, EMBEDDED_TOFU),
            "for this stack. Put `tofu` < 1.9 on PATH, or run: holdfast tools add FILE.",
        ),
    ],
)
def test_how_to_get_one_that_suits(wish: dict[str, Any], engines: tuple[EngineId, ...], says: str) -> None:
    """The version that is needed, and no package that is installed in another one."""
    use = wish.pop("use", EngineUse.AUTO)
    with pytest.raises(UsageError) as caught:
        select_engine(EngineRequirement(stack="s", config_pin=pin(use), **wish), engines)
    hint = (caught.value.problem.hint or "").removesuffix(" List the engines: holdfast doctor")
    assert hint.endswith(
        says
        % {
            "tofu": "For embedded OpenTofu: pip install holdfast-libtofu",
            "terraform": "For embedded Terraform: pip install 'holdfast[embedded]'",
        }
    )


def test_a_prerelease_is_not_met_by_accident() -> None:
    """`>= 1.9` does not select a release candidate, as Terraform itself would refuse it."""
    candidate = engine(EngineKind.BINARY, Product.TERRAFORM, "1.17.0-rc1")
    assert select_engine(EngineRequirement(stack="s", required=(">= 1.9",)), (candidate, OLD)).engine == OLD


@pytest.mark.parametrize(
    ("use", "engines", "unknown", "expected"),
    [
        (EngineUse.AUTO, (EMBEDDED,), OLD, EMBEDDED),
        (EngineUse.AUTO, (OLD,), TOFU, OLD),
        (EngineUse.TOFU, (TOFU,), NEW, TOFU),
        (EngineUse.AUTO, (), OLD, None),
        (EngineUse.BINARY, (EMBEDDED, OLD), NEW, None),
        (EngineUse.AUTO, (OLD,), EMBEDDED, None),
        (EngineUse.TOFU, (EMBEDDED,), TOFU, None),
    ],
)
def test_an_engine_of_unknown_version_is_neither_used_nor_absent(
    use: EngineUse, engines: tuple[EngineId, ...], unknown: EngineId, expected: EngineId | None
) -> None:
    """If it may be the one to use, the run fails, and no other engine takes its place."""
    requirement = EngineRequirement(stack="s", config_pin=pin(use))
    if expected is not None:
        assert select_engine(requirement, engines, (unknown,)).engine == expected
        return
    with pytest.raises(EngineError) as caught:
        select_engine(requirement, engines, (unknown,))
    assert (caught.value.problem.code, caught.value.exit) == ("HF-ENG-8", Exit.FAILED)
    assert unknown.path in caught.value.problem.message


_T, _O = Product.TERRAFORM, Product.TOFU


@pytest.mark.parametrize(
    ("known", "engines", "expected", "why"),
    [
        # Nothing points to a product: Terraform before OpenTofu, a library before a program.
        ({}, BOTH, EMBEDDED, _PREFERS % ("embedded Terraform", "tofu")),
        ({}, (EMBEDDED_TOFU, NEW, TOFU), EMBEDDED_TOFU, _PREFERS % ("embedded OpenTofu", "terraform")),
        ({}, (NEW, TOFU), NEW, _PREFERS % ("Terraform", "tofu")),
        # A version file, then the lock file, then the last apply, and of that product the best engine.
        (
            {"version_file": (".terraform-version", "latest"), "lock_product": _O},
            BOTH,
            EMBEDDED,
            ".terraform-version latest",
        ),
        (
            {"version_file": (".terraform-version", "1.11.4"), "last_product": _O},
            BOTH,
            OLD,
            ".terraform-version 1.11.4",
        ),
        (
            {"lock_product": _O, "last_product": _T},
            BOTH,
            EMBEDDED_TOFU,
            ".terraform.lock.hcl has providers of registry.opentofu.org",
        ),
        (
            {"lock_product": _O},
            (EMBEDDED, TOFU),
            TOFU,
            ".terraform.lock.hcl has providers of registry.opentofu.org",
        ),
        (
            {"lock_product": _T, "last_product": _O},
            (EMBEDDED_TOFU, NEW),
            NEW,
            ".terraform.lock.hcl has providers of registry.terraform.io",
        ),
        ({"last_product": _O}, BOTH, EMBEDDED_TOFU, "last applied with OpenTofu"),
        ({"last_product": _T}, (EMBEDDED_TOFU, OLD), OLD, "last applied with Terraform"),
        # These only prefer: with one product installed, that one runs the stack.
        ({"lock_product": _O}, (EMBEDDED, NEW), EMBEDDED, "the only product installed"),
        ({"last_product": _T}, (EMBEDDED_TOFU,), EMBEDDED_TOFU, "the only product installed"),
        # `embedded` and `binary` choose the kind, and what points to a product still counts.
        (
            {"use": EngineUse.EMBEDDED},
            BOTH,
            EMBEDDED,
            "`use: embedded`; " + _PREFERS % ("embedded Terraform", "tofu"),
        ),
        (
            {"use": EngineUse.EMBEDDED, "last_product": _O},
            BOTH,
            EMBEDDED_TOFU,
            "`use: embedded`; last applied with OpenTofu",
        ),
        (
            {"use": EngineUse.BINARY, "lock_product": _O},
            BOTH,
            TOFU,
            "`use: binary`; .terraform.lock.hcl has providers of registry.opentofu.org",
        ),
        # `terraform` and `tofu` choose the product: its library, else the program. A pin may exclude either.
        ({"use": EngineUse.TOFU, "lock_product": _T}, BOTH, EMBEDDED_TOFU, "`use: tofu`"),
        ({"use": EngineUse.TOFU}, ALL, TOFU, "`use: tofu`"),
        ({"use": EngineUse.TERRAFORM, "last_product": _O}, BOTH, EMBEDDED, "`use: terraform`"),
        ({"use": EngineUse.TERRAFORM}, (EMBEDDED_TOFU, TOFU, OLD), OLD, "`use: terraform`"),
        (
            {"use": EngineUse.TOFU, "required": ("< 1.9",)},
            BOTH,
            OLD_TOFU,
            "`use: tofu`; required_version < 1.9",
        ),
        (
            {"use": EngineUse.TOFU, "version_file": (".terraform-version", "1.11.4")},
            BOTH,
            EMBEDDED_TOFU,
            "`use: tofu`",
        ),
        # OpenTofu's code with its library, whatever kind is selected.
        ({"tofu_reason": "main.tofu"}, BOTH, EMBEDDED_TOFU, "main.tofu"),
        (
            {"tofu_reason": "main.tofu", "use": EngineUse.EMBEDDED},
            BOTH,
            EMBEDDED_TOFU,
            "main.tofu; `use: embedded`",
        ),
        ({"tofu_reason": "main.tofu", "use": EngineUse.BINARY}, BOTH, TOFU, "main.tofu; `use: binary`"),
        ({"tofu_reason": "main.tofu", "lock_product": _T, "last_product": _T}, ALL, TOFU, "main.tofu"),
    ],
)
def test_the_product(
    known: dict[str, Any], engines: tuple[EngineId, ...], expected: EngineId, why: str
) -> None:
    """The code and the configuration choose it; otherwise what points to one, and only then the order."""
    requirement = EngineRequirement(
        stack="s",
        config_pin=pin(known.pop("use", EngineUse.AUTO)),
        **known,
    )
    assert select_engine(requirement, engines) == EngineSelection(engine=expected, why=why)


@pytest.mark.parametrize(
    ("requirement", "engines", "expected"),
    [
        (EngineRequirement(stack="s"), BOTH, True),
        (EngineRequirement(stack="s"), (EMBEDDED, NEW), False),
        (EngineRequirement(stack="s", lock_product=_O), BOTH, False),
        (EngineRequirement(stack="s", tofu_reason="x"), BOTH, False),
        (EngineRequirement(stack="s", config_pin=pin(EngineUse.TOFU)), BOTH, False),
        (EngineRequirement(stack="s", config_pin=pin(EngineUse.EMBEDDED)), BOTH, True),
        (EngineRequirement(stack="s", required=("> 1.15",)), BOTH, False),
    ],
)
def test_when_the_last_apply_matters(
    requirement: EngineRequirement, engines: tuple[EngineId, ...], *, expected: bool
) -> None:
    """The run store is only read for stacks that may be run by either product."""
    assert depends_on_last_apply(requirement, engines) is expected


@pytest.mark.parametrize(
    ("hosts", "expected"),
    [
        (("registry.opentofu.org",), _O),
        (("registry.terraform.io", "registry.terraform.io"), _T),
        (("example.com", "registry.opentofu.org"), _O),
        (("registry.terraform.io", "registry.opentofu.org"), None),
        (("example.com",), None),
        ((), None),
    ],
)
def test_the_product_of_a_lock_file(hosts: tuple[str, ...], expected: Product | None) -> None:
    """The registry of its providers says who wrote it; a mixture says nothing."""
    text = "".join(f'provider "{host}/a/b" {{\n  version = "1.0.0"\n}}\n' for host in hosts)
    assert lock_product(f"# registry.terraform.io\n\n{text}".encode()) is expected


@given(
    st.lists(st.sampled_from(BOTH), unique=True).map(tuple),
    st.lists(st.sampled_from(BOTH), unique=True).map(tuple),
    st.sampled_from(EngineUse),
    st.none() | st.builds(pin, st.sampled_from(EngineUse), st.sampled_from((None, "1.12.6", ">= 1.9"))),
    st.sampled_from((None, _T, _O)),
    st.sampled_from((None, _T, _O)),
    st.sampled_from((None, (".terraform-version", "1.11.4"), (".opentofu-version", "1.12.6"))),
)
def test_code_that_needs_opentofu_never_gets_terraform(
    engines: tuple[EngineId, ...],
    unknown: tuple[EngineId, ...],
    use: EngineUse,
    stack_pin: EnginePin | None,
    lock: Product | None,
    last: Product | None,
    version_file: tuple[str, str] | None,
) -> None:
    """Whatever is installed and configured, and whatever else points to Terraform."""
    requirement = EngineRequirement(
        stack="s",
        tofu_reason="main.tofu",
        version_file=version_file,
        lock_product=lock,
        last_product=last,
        stack_pin=stack_pin,
        config_pin=pin(use),
    )
    with contextlib.suppress(UsageError, EngineError):
        assert select_engine(requirement, engines, unknown).engine.product is Product.TOFU
