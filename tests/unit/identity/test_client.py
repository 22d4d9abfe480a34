"""Which server and token a command uses."""

from __future__ import annotations

from pathlib import Path

import pytest
from answering import Answer, Answering, Asked

from holdfast import __version__
from holdfast.identity import client
from holdfast.identity.client import (
    ServerClient,
    ServerLogin,
    Unreachable,
    current_login,
    login_file,
    login_for,
    store_login,
    token_for,
)
from holdfast.kernel.errors import UsageError
from holdfast.system.environment import Environment

STORED = ServerLogin(url="https://stored.example", token="hf_stored")


def environment(home: Path, **variables: str) -> Environment:
    return Environment(variables={"HOLDFAST_HOME": str(home), **variables})


def test_variables_win_over_what_was_stored(tmp_path: Path) -> None:
    token_file = tmp_path / "token"
    token_file.write_text("hf_file\n")
    store_login(environment(tmp_path), STORED)
    assert login_file(environment(tmp_path)).stat().st_mode & 0o777 == 0o600
    assert current_login(environment(tmp_path)) == STORED
    given = {"HOLDFAST_URL": "https://given.example/", "HOLDFAST_TOKEN_FILE": str(token_file)}
    login = current_login(environment(tmp_path, **given))
    assert (login.url, login.token) == ("https://given.example", "hf_file")
    assert current_login(environment(tmp_path, **given, HOLDFAST_TOKEN="hf_given")).token == "hf_given"
    assert "hf_stored" not in repr(STORED)


def test_a_stored_token_is_sent_only_to_its_server(tmp_path: Path) -> None:
    store_login(environment(tmp_path), STORED)
    with pytest.raises(UsageError, match=r"no token for https://other\.example is known"):
        current_login(environment(tmp_path, HOLDFAST_URL="https://other.example"))


def test_without_a_server_the_error_says_how_to_log_in(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="HF-SRV-7 no server is known"):
        current_login(environment(tmp_path))


@pytest.mark.parametrize("address", ["https://other.example", "http://127.0.0.1:8999"])
@pytest.mark.parametrize("ci", [{}, {"CI": "true"}, {"JENKINS_URL": "x"}])
def test_the_configuration_does_not_decide_who_gets_a_token(
    tmp_path: Path, address: str, ci: dict[str, str]
) -> None:
    given = environment(tmp_path, HOLDFAST_TOKEN="hf_given", **ci)
    with pytest.raises(UsageError, match="HF-SRV-20"):
        token_for(given, address)
    named = Environment(variables={**given.variables, "HOLDFAST_URL": f"{address}/"})
    assert token_for(named, address) == "hf_given"
    with pytest.raises(UsageError, match="HF-SRV-20"):
        token_for(named, "https://elsewhere.example")


def test_a_server_that_is_started_again_is_waited_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Only by who said so, only for requests that read, and not for ever."""
    monkeypatch.setattr(client, "PAUSES", (0.0,))
    away = [503, 502]

    def answer(_: Asked) -> Answer:
        status = away.pop() if away else 200
        return Answer(
            status=status, body=b"{}", headers={"holdfast-version": __version__} if status != 502 else {}
        )

    told: list[str] = []
    with Answering(answer) as server:
        login = ServerLogin(url=f"http://127.0.0.1:{server.port}", token="hf_x")
        asking = ServerClient(login, environment(tmp_path))
        with pytest.raises(Unreachable, match="a proxy answered with 502"):
            asking.send("GET", "/")
        away.append(502)
        asking.be_patient(60.0, told.append)
        with pytest.raises(Unreachable):
            asking.send("POST", "/", {})
        away.append(502)
        assert asking.send("GET", "/") == {}
        assert [text.rpartition(" ")[2] for text in told] == ["502", "503"]
    asking.be_patient(0.2, told.append)
    with pytest.raises(Unreachable):
        asking.send("GET", "/")


def test_hints_name_a_server_that_is_not_known_otherwise(tmp_path: Path) -> None:
    url = "https://named.example"
    bare = environment(tmp_path, HOLDFAST_TOKEN="hf_x")
    assert login_for(bare, url).option == f"--server {url}"
    known = environment(tmp_path, HOLDFAST_TOKEN="hf_x", HOLDFAST_URL=url)
    assert login_for(known, url).option == login_for(known, None).option == "--server"
