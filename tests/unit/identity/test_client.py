"""Which server and token a command uses."""

from __future__ import annotations

from pathlib import Path

import pytest

from holdfast.identity.client import ServerLogin, current_login, login_file, store_login, token_for
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
