from __future__ import annotations

from holdfast.terraform.lock_file import LockedProvider, lock_text_without_hashes, read_lock, versions_digest

LOCK = b"""
# This file is maintained automatically by "terraform init".
provider "registry.terraform.io/hashicorp/random" {
  version     = "3.6.0"
  constraints = "~> 3.1"
  hashes = [
    "h1:Vklvv+k+PkH3a8uOGFZQNHSEyGWBLhwYBPL85SoZYlg=",
    "zh:0011223344",
  ]
}

provider "holdfast.dev/labs/lab" {
  version = "1.0.0"
}
"""


def test_a_lock_file_is_read() -> None:
    """Address, version, constraints and hashes; only package hashes can be computed again."""
    random, lab = read_lock(LOCK)
    assert (random.address, random.version) == ("registry.terraform.io/hashicorp/random", "3.6.0")
    assert random.constraints == "~> 3.1"
    assert random.package_hashes == ("h1:Vklvv+k+PkH3a8uOGFZQNHSEyGWBLhwYBPL85SoZYlg=",)
    assert lab == LockedProvider(address="holdfast.dev/labs/lab", version="1.0.0")


def test_the_copy_without_hashes_is_otherwise_the_same() -> None:
    """What Terraform selects by is kept; what it would hash on every command is not there."""
    copy = lock_text_without_hashes(read_lock(LOCK))
    assert "h1:" not in copy
    assert "zh:" not in copy
    assert [(one.address, one.version, one.constraints) for one in read_lock(copy.encode())] == [
        (one.address, one.version, one.constraints) for one in read_lock(LOCK)
    ]


def test_one_set_of_versions_has_one_digest() -> None:
    """The order of the file and its hashes do not matter, a version does."""
    forward = read_lock(LOCK)
    newer = (*forward[:1], LockedProvider(address="holdfast.dev/labs/lab", version="2.0.0"))
    assert versions_digest(forward) == versions_digest(tuple(reversed(forward)))
    assert versions_digest(forward) == versions_digest(read_lock(lock_text_without_hashes(forward).encode()))
    assert versions_digest(forward) != versions_digest(newer)
    assert versions_digest(()) == "none"
