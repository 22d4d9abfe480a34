from __future__ import annotations

import json
import shutil
import stat
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from bundle_made import KEY, OTHER_KEY, bundle, written
from msgspec.structs import asdict

from holdfast.kernel.errors import Exit, HoldfastError, Refused, UsageError
from holdfast.plans import saved_plan as bundles
from holdfast.plans.saved_plan import DigestParts
from holdfast.secrets.encryption import seal, unseal

FILES = (
    "change.json",
    "change.sealed",
    "a/summary.json",
    "a/digest.sealed",
    "a/plan.sealed",
    "a/lock.sealed",
    "a/made.sealed",
)
Damage = Callable[[bytes], bytes]


def flip(where: Callable[[bytes], int]) -> Damage:
    def damage(data: bytes) -> bytes:
        at = where(data)
        return data[:at] + bytes([data[at] ^ 0x01]) + data[at + 1 :]

    return damage


DAMAGES: dict[str, Damage] = {
    "first byte": flip(lambda _: 0),
    "middle byte": flip(lambda data: len(data) // 2),
    "last byte": flip(lambda data: len(data) - 1),
    "cut by one": lambda data: data[:-1],
    "cut in half": lambda data: data[: len(data) // 2],
    "emptied": lambda _: b"",
    "one byte more": lambda data: data + b"\n",
    "something else": lambda _: b'{"run": "\\ud800", "stack": "a", "change": "\\ud800"}',
    "too deep": lambda _: b"[" * 100_000,
}


@pytest.fixture(scope="module")
def original(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return written(tmp_path_factory.mktemp("bundle") / "out", bundle("a"))


@pytest.fixture(scope="module")
def another(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Of the same stack, sealed with the same key, made by another run."""
    return written(tmp_path_factory.mktemp("bundle") / "out", bundle("a", run="run-2"))


@pytest.fixture
def out(original: Path, tmp_path: Path) -> Path:
    return shutil.copytree(original, tmp_path / "out")


def test_what_was_written_is_read_back(tmp_path: Path) -> None:
    """A bundle gives back exactly what the plan put in, at either level."""
    one, other = bundle("a"), bundle("team/b", plan=b"another", whole=False)
    out = written(tmp_path / "out", one, other)
    assert bundles.load(out, KEY) == (one, other)
    assert bundles.load(out / "a", KEY) == (one,)
    assert bundles.load(out / "team/b", KEY) == (other,)


def test_nobody_else_may_look(tmp_path: Path) -> None:
    """Files are 0600 and folders 0700, whatever the umask allows."""
    out = written(tmp_path / "out", bundle("team/a"))
    for path in (out, *out.rglob("*")):
        assert stat.S_IMODE(path.stat().st_mode) == (0o700 if path.is_dir() else 0o600), path


def test_the_test_knows_every_file(out: Path) -> None:
    """A kind of file that a bundle gets later must be among those that are damaged here."""
    there = {path.relative_to(out).as_posix() for path in out.rglob("*") if path.is_file()}
    assert there == set(FILES)


@pytest.mark.parametrize("damage", DAMAGES.values(), ids=DAMAGES.keys())
@pytest.mark.parametrize("file", FILES)
def test_any_damage_to_any_file_is_refused(out: Path, file: str, damage: Damage) -> None:
    """Any byte of any file that is not as it was written refuses the bundle, exit 3."""
    target = out / file
    target.write_bytes(damage(target.read_bytes()))
    with pytest.raises(Refused) as refused:
        bundles.load(out, KEY)
    assert refused.value.exit is Exit.REFUSED
    assert refused.value.problem.hint
    if file.startswith("a/"):
        with pytest.raises(Refused):
            bundles.load(out / "a", KEY)


@pytest.mark.parametrize("file", FILES)
def test_a_missing_file_is_refused(out: Path, file: str) -> None:
    """A file that was taken away is a changed bundle, not a smaller one."""
    (out / file).unlink()
    with pytest.raises(Refused):
        bundles.load(out, KEY)


@pytest.mark.parametrize("file", FILES)
def test_a_folder_in_the_place_of_a_file_is_refused(out: Path, file: str) -> None:
    """What cannot be read is never taken for absent."""
    (out / file).unlink()
    (out / file).mkdir()
    with pytest.raises(Refused):
        bundles.load(out, KEY)


@pytest.mark.parametrize("file", FILES)
def test_a_file_of_another_bundle_is_refused(out: Path, another: Path, file: str) -> None:
    """Each file fits only the bundle it was made for, though both are sealed with one key."""
    shutil.copy(another / file, out / file)
    with pytest.raises(Refused):
        bundles.load(out, KEY)


def test_files_of_one_bundle_do_not_fit_each_other(out: Path) -> None:
    """The lock file's place takes no plan, though it was sealed by the same run."""
    shutil.copy(out / "a/plan.sealed", out / "a/lock.sealed")
    with pytest.raises(Refused, match=r"lock\.sealed"):
        bundles.load(out, KEY)


def test_a_whole_bundle_is_neither_taken_away_nor_exchanged_nor_added(tmp_path: Path) -> None:
    """The bundles of a change belong together: less, more or others is a changed bundle."""
    out = written(tmp_path / "out", bundle("a"), bundle("b"))
    other = written(tmp_path / "other", bundle("b", run="run-2", plan=b"another"), bundle("c"))

    fewer = shutil.copytree(out, tmp_path / "fewer")
    shutil.rmtree(fewer / "b")
    with pytest.raises(Refused, match="saved plan b is missing"):
        bundles.load(fewer, KEY)

    more = shutil.copytree(out, tmp_path / "more")
    shutil.copytree(other / "c", more / "c")
    with pytest.raises(Refused, match="c is not part of this bundle"):
        bundles.load(more, KEY)

    exchanged = shutil.copytree(out, tmp_path / "exchanged")
    shutil.rmtree(exchanged / "b")
    shutil.copytree(other / "b", exchanged / "b")
    with pytest.raises(Refused, match="b is from another bundle"):
        bundles.load(exchanged, KEY)

    for name in ("change.json", "change.sealed"):
        (out / name).unlink()
    with pytest.raises(Refused, match=r"change\.json is missing"):
        bundles.load(out, KEY)


def test_an_edited_summary_is_refused(out: Path) -> None:
    """What a person read before they said yes is what was sealed."""
    summary = json.loads((out / "a/summary.json").read_text())
    (out / "a/summary.json").write_text(json.dumps({**summary, "digest": "0" * 64}))
    with pytest.raises(Refused, match=r"summary\.json was edited"):
        bundles.load(out / "a", KEY)


def test_another_key_is_named(tmp_path: Path) -> None:
    """With the wrong key the answer names both keys, and never says that there is no bundle."""
    out = written(tmp_path / "out", bundle("a"), key=OTHER_KEY)
    for folder in (out, out / "a"):
        with pytest.raises(Refused) as refused:
            bundles.load(folder, KEY)
        problem = refused.value.problem
        assert problem.code == "HF-BUND-10"
        assert KEY.id in problem.message
        assert OTHER_KEY.id in problem.message
        assert problem.message.isprintable()
        assert "HOLDFAST_KEY" in (problem.hint or "")


@pytest.mark.parametrize("what", ["nothing", "file", "empty folder"])
def test_where_there_never_was_a_bundle_is_a_mistake_of_usage(tmp_path: Path, what: str) -> None:
    """A wrong path is exit 64: nothing was tampered with."""
    place = tmp_path / "place"
    if what == "file":
        place.write_text("x")
    elif what == "empty folder":
        place.mkdir()
    with pytest.raises(UsageError) as error:
        bundles.load(place, KEY)
    assert error.value.problem.code == "HF-BUND-2"


def test_of_an_empty_change_there_is_nothing_to_apply(tmp_path: Path) -> None:
    """A change that selected nothing still gives a bundle, and that is nothing to do."""
    assert bundles.load(written(tmp_path / "out"), KEY) == ()


@pytest.mark.parametrize("there", ["a file", "a file in it", "a folder in it"])
def test_a_folder_that_is_not_empty_is_not_written_to(tmp_path: Path, there: str) -> None:
    """Two changes never mix."""
    out = tmp_path / "out"
    if there == "a file":
        out.write_text("x")
    else:
        out.mkdir()
        (out / ".x").write_text("") if there == "a file in it" else (out / "x").mkdir()
    with pytest.raises(HoldfastError) as error:
        bundles.prepare_folder(out)
    assert error.value.exit is Exit.USAGE
    assert error.value.problem.code == "HF-BUND-1"


def test_nothing_of_the_plan_is_readable(tmp_path: Path) -> None:
    """No file of a bundle holds a byte of plan, plan JSON, lock file or made files in clear."""
    out = written(tmp_path / "out", bundle("a", plan=b"hunter2-hunter2"))
    files = [path for path in out.rglob("*") if path.is_file()]
    assert files
    for path in files:
        content = path.read_bytes()
        assert b"hunter2" not in content
        assert b"an archive" not in content


# Sealed with the right key, by something that is not this Holdfast


def reseal(out: Path, name: str, edit: Callable[[Any], Any]) -> None:
    """Write one sealed file of the bundle anew, with the key and in the place of the old one."""
    context = f"bundle\0run-1\0a\0{name}"
    file = out / f"a/{name}.sealed"
    content = unseal(KEY, file.read_bytes(), context=context)
    edited = edit(json.loads(content)) if name == "digest" else edit(content)
    data = edited if isinstance(edited, bytes) else json.dumps(edited).encode()
    file.write_bytes(seal(KEY, data, context=context))


def test_what_is_sealed_again_as_it_was_is_read(out: Path) -> None:
    """Else the tests below would prove nothing."""
    for name in ("digest", "plan", "lock", "made"):
        reseal(out, name, lambda document: document)
    assert bundles.load(out, KEY)[0].plan == b"the plan file"


@pytest.mark.parametrize("name", ["plan", "lock", "made"])
def test_another_content_is_refused_though_its_seal_is_right(out: Path, name: str) -> None:
    """The digest document says what each file held."""
    reseal(out, name, lambda _: b"another content")
    with pytest.raises(Refused, match=rf"{name}\.sealed was replaced"):
        bundles.load(out, KEY)


def _another_plan(document: Any) -> Any:
    return document | {"parts": document["parts"] | {"plan": "0" * 64}}


def _another_state(document: Any) -> Any:
    return document | {"parts": document["parts"] | {"serial": 8}}


def _another_digest(document: Any) -> Any:
    return document | {"digest": "0" * 64}


def _no_plan(document: Any) -> Any:
    return document | {"contents": document["contents"] | {"plan": None}}


def _plan_and_digest(document: Any) -> Any:
    """A digest that fits its parts, of a plan that is not there."""
    parts = DigestParts(**(document["parts"] | {"plan": "0" * 64}))
    return document | {"parts": asdict(parts), "digest": parts.digest()}


@pytest.mark.parametrize("edit", [_another_plan, _another_state, _another_digest, _no_plan, _plan_and_digest])
def test_a_digest_fits_its_plan_and_its_parts(out: Path, edit: Callable[[Any], Any]) -> None:
    """What is approved by its digest is this plan, made from these things."""
    reseal(out, "digest", edit)
    with pytest.raises(Refused, match="the digest does not match the plan"):
        bundles.load(out / "a", KEY)


def test_a_format_that_is_not_known_is_refused(out: Path) -> None:
    """A newer Holdfast may mean something else by it."""
    reseal(out, "digest", lambda document: document | {"version": 4})
    with pytest.raises(Refused, match="unknown format 4"):
        bundles.load(out, KEY)


@pytest.mark.parametrize("left", ["change.json", "change.sealed"])
def test_half_of_what_names_the_bundles_is_not_enough(out: Path, left: str) -> None:
    """Neither half by itself says which bundles there are."""
    for name in {"change.json", "change.sealed"} - {left}:
        (out / name).unlink()
    with pytest.raises(Refused):
        bundles.load(out, KEY)


def test_an_empty_change_that_lost_its_list_is_refused(tmp_path: Path) -> None:
    """Nobody can say whether it was empty."""
    out = written(tmp_path / "out")
    assert bundles.load(out, KEY) == ()
    (out / "change.json").unlink()
    with pytest.raises(Refused):
        bundles.load(out, KEY)


def test_a_link_to_nowhere_stands_for_what_it_replaced(out: Path) -> None:
    """A folder is a change as long as anything bears the name: it is refused, and never read as one stack."""
    for name in ("change.json", "change.sealed"):
        (out / name).unlink()
        (out / name).symlink_to(out / "nowhere")
    with pytest.raises(Refused, match=r"change\.json cannot be read"):
        bundles.load(out, KEY)
