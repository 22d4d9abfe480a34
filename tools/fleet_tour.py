"""Sites by API: a server with the shipped blueprints, and simulators of Cato and Versa Director beside it."""

from __future__ import annotations

import contextlib
import json
import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any
from urllib.error import HTTPError
from urllib.request import Request, urlopen

ROOT = Path(__file__).resolve().parent.parent
HOLDFAST = Path(sys.executable).with_name("holdfast")
sys.path.insert(0, str(ROOT / "labs"))

from sdwan import mirror  # noqa: E402 - the labs are no package of ours
from sdwan.cato import TOKEN, CatoApi  # noqa: E402
from sdwan.versa import PASSWORD, USERNAME, VersaDirector  # noqa: E402
from simulator import Fault  # noqa: E402

CITIES = ("Athens", "Berlin", "Cairo", "Delhi", "Essen", "Florence", "Geneva", "Hanoi", "Izmir", "Jakarta")
FAILING = "Oslo"
Say = Callable[[str], None]


class Fleet:
    """The server, and the services that its blueprints configure."""

    def __init__(self, url: str, data: Path, cato: CatoApi, versa: VersaDirector) -> None:
        self.url = url
        self.data = data
        self.cato = cato
        self.versa = versa
        self._admin = (data / "admin-token").read_text().strip()
        self.operator = self._token("operator", "client")
        self.approver = self._token("approver", "reviewer")

    def _token(self, role: str, name: str) -> str:
        made = self.request("POST", "/tokens", {"role": role, "name": name}, token=self._admin)
        return str(made["token"])

    def request(self, method: str, path: str, body: object = None, *, token: str | None = None) -> Any:
        data = None if body is None else json.dumps(body).encode()
        request = Request(f"{self.url}/api/v1{path}", data=data, method=method)  # noqa: S310 - loopback
        request.add_header("Authorization", f"Bearer {token or self.operator}")
        request.add_header("Content-Type", "application/json")
        try:
            with urlopen(request, timeout=310) as answer:  # noqa: S310 - loopback
                return json.loads(answer.read() or b"null")
        except HTTPError as error:
            sys.exit(f"\n{method} {path}: {json.loads(error.read())}")

    def submit(self, action: str, blueprint: str, site: str, payload: object = None, **more: object) -> Any:
        body = {"blueprint": blueprint, "action": action, "resource_id": site.lower(), **more}
        return self.request(
            "POST", "/events?wait=120", body if payload is None else {**body, "payload": payload}
        )


def payload(blueprint: str, site: str, number: int) -> dict[str, object]:
    own = {
        "site_name": site,
        "public_ip": f"203.0.113.{number}",
        "bgp_neighbor_ip": f"169.254.{number}.2",
        "bgp_peer_asn": 65000 + number,
    }
    if blueprint == "cato-ipsec-site":
        return {**own, "network_range": f"10.{number}.0.0/24", "cato_private_ip": f"169.254.{number}.1"}
    return {
        **own,
        "template": "BRANCH",
        "device": f"branch{number}",
        "peer_public_ip": "198.51.100.10",
        "tunnel_interface": f"tvi-0/{600 + number}",
        "tunnel_ip": f"169.254.{number}.1",
    }


@contextlib.contextmanager
def serving(place: Path, *, listen: str = "127.0.0.1:0") -> Iterator[Fleet]:
    """Nothing outside `place` is written, and nothing outside this machine is asked."""
    with CatoApi() as cato, VersaDirector() as versa:
        variables = {
            "CATO_BASEURL": cato.endpoint,
            "CATO_TOKEN": TOKEN,
            "CATO_ACCOUNT_ID": "1000",
            "CATO_PSK": "only-for-the-simulator-1",
            "VERSA_DIRECTOR_URL": versa.url,
            "VERSA_USERNAME": USERNAME,
            "VERSA_PASSWORD": PASSWORD,
            "VERSA_ORGANIZATION": "ACME",
            "VERSA_PSK": "only-for-the-simulator-2",
            "TF_CLI_CONFIG_FILE": str(mirror.build(place / "providers", python=Path(sys.executable))),
        }
        data = place / "server"
        data.mkdir(mode=0o700)
        passed = ", ".join(variables)
        (data / "server.yaml").write_text(f"version: 1\nworker: {{ pass_env: [{passed}] }}\n")
        with (place / "server.log").open("w") as log:
            process = subprocess.Popen(
                [HOLDFAST, "serve", "--listen", listen, "--data", data, "--blueprints", ROOT / "blueprints"],
                env={**os.environ, "HOLDFAST_HOME": str(place / "home"), **variables},
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=log,
                text=True,
            )
        try:
            line = process.stdout.readline() if process.stdout is not None else ""
            if "ready" not in line:
                sys.exit(f"\nholdfast serve did not start:\n{(place / 'server.log').read_text()}")
            yield Fleet(line.split()[-1], data, cato, versa)
        finally:
            process.terminate()
            process.wait(40)


def show(event: Any, say: Say) -> None:
    outputs = ", ".join(f"{name} {value}" for name, value in (event.get("outputs") or {}).items())
    spent = sum((event.get("timings") or {}).values()) / 1000
    error = (event.get("error") or {}).get("code", "")
    site = f"{event['resource_id']:10} {event['blueprint']:16}"
    say(f"   {site} {event['action']:7} {event['status']:10} {spent:4.1f} s  {outputs or error}".rstrip())


def tell(fleet: Fleet, chapter: Say, say: Say) -> None:
    """What a client does in a day."""
    chapter("Create a dozen sites by API: each call returns the outputs of its site")
    say(f'   $ curl {fleet.url}/api/v1/events?wait=120 -d \'{{"blueprint": "cato-ipsec-site", …}}\'')
    kinds = ["cato-ipsec-site" if number % 2 else "versa-site" for number in range(len(CITIES))]
    fleet.cato.misbehave(
        Fault(operation="siteAddIpsecIkeV2Site", what="fail-before", name=FAILING, count=None, text="quota")
    )
    with ThreadPoolExecutor(len(CITIES) + 2) as pool:
        waiting = pool.submit(
            fleet.submit,
            "create",
            "versa-site",
            "Paris",
            payload("versa-site", "Paris", 91),
            requires_approval=True,
        )
        failing = pool.submit(
            fleet.submit, "create", "cato-ipsec-site", FAILING, payload("cato-ipsec-site", FAILING, 92)
        )
        created = [
            pool.submit(fleet.submit, "create", kind, city, payload(kind, city, number))
            for number, (kind, city) in enumerate(zip(kinds, CITIES, strict=True), start=1)
        ]
        for done in (*created, waiting, failing):
            show(done.result(), say)

    chapter("Approve the one that waits: another person, and exactly the plan that was shown")
    event = waiting.result()
    decision = {"digest": event["plan"]["digest"], "reason": "looks right"}
    fleet.request("POST", f"/events/{event['id']}/approve", decision, token=fleet.approver)
    show(fleet.request("GET", f"/events/{event['id']}?wait=120"), say)

    chapter("The service recovers: retry the one that failed")
    fleet.cato.behave()
    again = fleet.request("POST", f"/events/{failing.result()['id']}/retry", {})
    show(fleet.request("GET", f"/events/{again['id']}?wait=120"), say)

    chapter("Update one site, delete another")
    changed = {**payload("cato-ipsec-site", "Berlin", 2), "description": "moved to the new office"}
    show(fleet.submit("update", "cato-ipsec-site", "Berlin", changed), say)
    show(fleet.submit("delete", "versa-site", "Athens"), say)

    chapter("Change a site at Cato itself: its drift is found, and what cannot be compared is named")
    site = next(id_ for id_, values in fleet.cato.sites().items() if values["name"] == "Delhi")
    fleet.cato.change_site(site, description="changed in the console")
    fleet.request("POST", "/devices/cato-ipsec-site/delhi/drift", {})
    drift = None
    while drift is None:
        time.sleep(0.1)
        drift = fleet.request("GET", "/devices/cato-ipsec-site/delhi")["drift"]
    for finding in drift["findings"]:
        say(f"   {finding['address']}: {finding['attribute']} {finding['before']!r} → {finding['after']!r}")
    say(f"   not compared, because the provider never reads it: {len(drift['not_looked_at'])} attributes")


def main() -> None:
    """The same story, and then the server stays."""
    import tempfile  # noqa: PLC0415 - only here

    place = Path(tempfile.mkdtemp(prefix="holdfast-demo-"))
    with serving(place, listen="127.0.0.1:8420") as fleet:
        tell(fleet, lambda text: print(f"\n{text}", flush=True), lambda text: print(text, flush=True))
        print(f"\nThe server is running at {fleet.url} until you press Ctrl-C. Try:")
        print(f"  export HOLDFAST_URL={fleet.url} HOLDFAST_TOKEN={fleet.operator}")
        print(f"  {HOLDFAST} events list")
        print(f"  {HOLDFAST} devices list")
        print(f"  An admin's token is in {fleet.data / 'admin-token'}, the log in {place / 'server.log'}.")
        with contextlib.suppress(KeyboardInterrupt):
            while True:
                time.sleep(3600)


if __name__ == "__main__":
    main()
