from __future__ import annotations

import stat
from pathlib import Path

import pytest

from holdfast.kernel.errors import Failed
from holdfast.terraform.engine.folder_hashes import FolderHashes, package_hash
from holdfast.terraform.engine.mirror import Handshake, Mirror, executable, probe_handshake
from holdfast.terraform.lock_file import LockedProvider


@pytest.fixture
def package(tmp_path: Path) -> Path:
    folder = tmp_path / "package"
    (folder / "docs").mkdir(parents=True)
    program = folder / "terraform-provider-x_v1.0.0"
    program.write_text("#!/bin/sh\necho nothing\n")
    program.chmod(0o755)
    (folder / "docs" / "LICENSE").write_text("free")
    return folder


def locked(package: Path) -> LockedProvider:
    return LockedProvider(address="a/b/x", version="1.0.0", hashes=(package_hash(package),))


def test_a_package_is_taken_in_read_only_and_found_by_its_hash(package: Path, tmp_path: Path) -> None:
    """The mirror contains read-only copies."""
    mirror = Mirror(tmp_path / "mirror", FolderHashes())
    assert mirror.find(locked(package)) is None
    added = mirror.add(package, locked(package).package_hashes, Handshake(plain=True))
    assert mirror.find(locked(package)) == added
    assert package_hash(added.folder) == package_hash(package)
    modes = {stat.S_IMODE(path.stat().st_mode) for path in added.folder.rglob("*") if path.is_file()}
    assert modes == {0o500, 0o400}
    (package / "docs" / "LICENSE").write_text("changed in the source")
    assert package_hash(added.folder) != package_hash(package)


def test_what_the_lock_file_does_not_vouch_for_is_refused(package: Path, tmp_path: Path) -> None:
    """A package with another hash never enters, and leaves nothing behind."""
    mirror = Mirror(tmp_path / "mirror", FolderHashes())
    with pytest.raises(Failed) as raised:
        mirror.add(package, ("h1:Vklvv+k+PkH3a8uOGFZQNHSEyGWBLhwYBPL85SoZYlg=",), Handshake(plain=True))
    assert raised.value.problem.code == "HF-MIRR-1"
    assert not (tmp_path / "mirror").exists() or not list((tmp_path / "mirror").iterdir())


def test_damage_is_noticed_and_replaced(package: Path, tmp_path: Path) -> None:
    """A changed byte makes the entry unknown; filling it again heals it, and the damaged one is set aside."""
    mirror = Mirror(tmp_path / "mirror", FolderHashes())
    provider = locked(package)
    file = mirror.add(package, provider.package_hashes, Handshake()).folder / "docs" / "LICENSE"
    file.chmod(0o600)
    file.write_text("evil")
    assert mirror.find(provider) is None
    healed = mirror.add(package, provider.package_hashes, Handshake())
    assert (healed.folder / "docs" / "LICENSE").read_text() == "free"
    assert mirror.find(provider) == healed


def test_an_entry_with_new_timestamps_is_verified_again(package: Path, tmp_path: Path) -> None:
    """Other times with the same content are no damage."""
    mirror = Mirror(tmp_path / "mirror", FolderHashes())
    provider = locked(package)
    added = mirror.add(package, provider.package_hashes, Handshake(plain=True))
    (added.folder / "docs" / "LICENSE").touch()
    assert mirror.find(provider) == added


def test_a_half_written_entry_is_no_entry(package: Path, tmp_path: Path) -> None:
    """A folder without its record, or with files missing, is not believed."""
    mirror = Mirror(tmp_path / "mirror", FolderHashes())
    provider = locked(package)
    added = mirror.add(package, provider.package_hashes, Handshake(plain=True))
    (added.folder / "docs" / "LICENSE").unlink()
    assert mirror.find(provider) is None
    (added.folder.parent / "meta.json").unlink()
    assert mirror.find(provider) is None


def test_the_lab_provider_answers_plainly_and_plain_programs_do_not(
    lab: Path, package: Path, workplace: Path
) -> None:
    """The probe speaks to a real provider; a program that prints something else is not switched to plain."""
    folder = next(lab.parent.glob("holdfast.dev/labs/lab/1.0.0/*"))
    assert executable(folder) is not None

    def probe(package: Path) -> Handshake:
        return probe_handshake(package, scratch=workplace, path="/usr/bin:/bin", ruleset=-1)

    assert probe(folder) == Handshake(plain=True, placed=True)
    assert probe(package) == Handshake()
