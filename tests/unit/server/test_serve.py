"""What `holdfast serve` believes in its data folder, and what it writes to a terminal."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
import structlog

from holdfast.database.postgres import own_data_folder
from holdfast.kernel.errors import HoldfastError
from holdfast.server import log, serve
from holdfast.system import files


def test_a_terminal_gets_no_control_characters() -> None:
    event = {"event": "request", "path": "/\x1b]0;PWNED\x07", "who": "ada\x9b31m", "name": "Zoë", "status": 1}
    shown = log.without_control_characters(None, "", event)
    assert shown == {**event, "path": "/\\x1b]0;PWNED\\x07", "who": "ada\\x9b31m"}
    assert "\x1b" not in structlog.dev.ConsoleRenderer(colors=False)(None, "info", dict(shown))


def test_a_planted_admin_token_is_refused(tmp_path: Path) -> None:
    file, other = tmp_path / "admin-token", tmp_path / "other"
    files.write(other, "hf_x\n")
    assert serve._read_own(other) == "hf_x\n"
    file.symlink_to(other)
    other_mode = tmp_path / "readable"
    files.write(other_mode, "hf_x\n", mode=0o644)
    for path in (file, other_mode):
        with pytest.raises(HoldfastError, match="HF-SRV-21"):
            serve._read_own(path)


def test_a_file_of_another_user_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    files.write(tmp_path / "admin-token", "hf_x\n")
    own = os.geteuid()
    monkeypatch.setattr(os, "geteuid", lambda: own + 1)
    with pytest.raises(HoldfastError, match="HF-SRV-21"):
        serve._read_own(tmp_path / "admin-token")
    with pytest.raises(HoldfastError, match="HF-DB-20"), own_data_folder(tmp_path, "test"):
        pass


def test_a_data_folder_that_others_can_change_is_refused(tmp_path: Path) -> None:
    data = tmp_path / "data"
    data.mkdir()
    data.chmod(0o777)
    with own_data_folder(data, "test"):
        assert data.stat().st_mode & 0o777 == 0o700
    data.chmod(0o777)
    with pytest.raises(HoldfastError, match="HF-DB-20") as caught, own_data_folder(data, "test"):
        pass
    assert f"chmod 700 {data}" in str(caught.value.problem.hint)
    assert data.stat().st_mode & 0o777 == 0o777
