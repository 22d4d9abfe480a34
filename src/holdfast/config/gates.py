"""`gates` of a target: checks of the live system after an apply, one kind each."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from holdfast.config.declarations import At, ListOf, Names, Section, key
from holdfast.config.placeholders import MalformedError, parse
from holdfast.config.problems import Problems, listed
from holdfast.config.secret_refs import SecretRef
from holdfast.config.shapes import NAME, Choice, Duration, Integer, MistakeError, SecretOnly, Text, path_text
from holdfast.kernel.patterns import pattern

FACTS: Final = "facts."
OUTPUTS: Final = "outputs."
_PART: Final = r"(?:\.[A-Za-z0-9_][A-Za-z0-9_-]*)+"
GATE_NAMES: Final = pattern(rf"environment|target|(?:facts|outputs|values){_PART}")
"""What can be in braces in the texts of gates."""
_PORT: Final = Integer(1, 65535)


def _checked(text: str) -> str:
    try:
        parse(text, GATE_NAMES)
    except MalformedError as error:
        raise MistakeError(
            "HF-CONF-19",
            f"contains {error}",
            hint="Gates know {facts.NAME}, {outputs.NAME}, {values.NAME}, {environment} and {target}. "
            "Write {{ and }} for literal braces.",
        ) from None
    return text


def _text(expected: str = "text", form: str | None = None) -> Text:
    """Text with the placeholders of gates."""
    return Text(expected, form, convert=_checked)


_HOST: Final = _text("a host name or an address", r"[^\s/]+")
_CA_FILE: Final = path_text("a path inside the repository", r"(?!/)(?!(?:.*/)?\.\.(?:/|$))[^\\{}\x00-\x1f]+")
_CA_DOC: Final = (
    "The certificates of the authorities that are trusted, in PEM, relative to `holdfast.yaml`. Without it: "
    "those that this machine trusts."
)


class TcpGate(Section, frozen=True, kw_only=True):
    host: str = key(_HOST, "A host name or an address.", required=True)
    port: int = key(_PORT, "The port that must accept connections.", required=True)


class HttpGate(Section, frozen=True, kw_only=True):
    url: str = key(
        _text("an address that starts with https:// or http://", r"https?://[^\s]+|\{[^\s]+"),
        "The address that is requested. Redirects are not followed.",
        required=True,
    )
    method: str = key(Choice(("GET", "HEAD")), "The method of the request.", default="GET")
    status: tuple[int, ...] = key(
        ListOf(Integer(100, 599), single=True),
        "The status that the response must have, or a list of them.",
        default_doc="`200`; with `redirect`: `301`, `302`, `303`, `307`, `308`",
    )
    contains: tuple[str, ...] = key(
        ListOf(_text(), single=True), "Text that the body must contain, or a list of texts."
    )
    headers: Mapping[str, str] = key(
        Names(_text(), r"[A-Za-z0-9-]+", "the name of a header"),
        "Headers that the response must have, with exactly these values.",
    )
    redirect: str | None = key(_text(), "The address that the response must redirect to.")
    ca_file: str | None = key(_CA_FILE, _CA_DOC)


class DnsGate(Section, frozen=True, kw_only=True):
    name: tuple[str, ...] = key(
        ListOf(_text("a domain name, or `*.` and one", r"[^\s/]+"), single=True),
        'A name, or a list of them, such as the apex and the wildcard: `[acme.example, "*.acme.example"]`. '
        "Of a wildcard, a random name below it is looked up.",
        required=True,
    )
    equals: tuple[str, ...] = key(
        ListOf(_text("an address or a host name", r"[^\s/]+"), single=True),
        "The addresses that each name must have, exactly. A host name, such as that of a load balancer, "
        "stands for its addresses, of which one is enough.",
        required=True,
    )
    resolvers: tuple[str, ...] = key(
        ListOf(
            _text("an IP address, optionally with a port: `1.1.1.1`, `10.0.0.2:5353`", r"[^\s/]+"),
            single=True,
        ),
        "IP addresses of the DNS servers that must all agree.",
        default_doc="those of this machine, of which the first that answers counts",
    )


class TlsGate(Section, frozen=True, kw_only=True):
    host: str = key(_HOST, "The name that the certificate must be valid for.", required=True)
    address: str | None = key(
        _HOST, "Where to connect, if not to `host`: an address that DNS does not point to yet."
    )
    port: int = key(_PORT, "The port.", default=443)
    valid_for: float = key(
        Duration(0, 3650 * 86400.0), "How long the certificate must still be valid.", default="0s"
    )
    ca_file: str | None = key(_CA_FILE, _CA_DOC)


class OidcGate(Section, frozen=True, kw_only=True):
    issuer: str = key(
        _text("the address of the issuer", r"https?://[^\s]+|\{[^\s]+"),
        "The issuer, whose discovery document is read.",
        required=True,
    )
    client_id: str = key(_text(), "The client that logs in, such as that of Argo CD.", required=True)
    client_secret: SecretRef | None = key(SecretOnly(), "Its secret; a public client has none.")
    redirect_uri: str = key(
        _text("an address", r"[a-z][a-z0-9+.-]*://[^\s]+|\{[^\s]+"),
        "An address that the client may be sent back to. It is not opened.",
        required=True,
    )
    user: str | SecretRef = key(
        Text("the name of a test user, or a secret reference", secret=True, convert=_checked),
        "The test user: its name, or a reference to a secret.",
        required=True,
    )
    password: SecretRef = key(SecretOnly(), "The password of the test user.", required=True)
    scopes: tuple[str, ...] = key(
        ListOf(_text("the name of a scope", r"[^\s]+"), single=True),
        "The scopes that are asked for.",
        default_doc="`openid`",
    )
    parameters: Mapping[str, str] = key(
        Names(_text(), r"[A-Za-z0-9_.-]+", "the name of a parameter"),
        "More parameters of the authorization request, such as `connector_id: local` for Dex.",
    )
    login_hosts: tuple[str, ...] = key(
        ListOf(_text("a host", r"[^\s/]+"), single=True),
        "Hosts whose login page may get the password, in addition to those of the issuer and its "
        "authorization endpoint.",
    )
    claims: Mapping[str, str] = key(
        Names(_text(), r"[^\s]+", "the name of a claim"),
        "Claims that the ID token must have: the value itself, or one of a list, such as `groups: admins`.",
    )
    ca_file: str | None = key(_CA_FILE, _CA_DOC)


class Cluster(Section, frozen=True, kw_only=True):
    """Which cluster a target has, for gates and deploys."""

    context: str = key(
        _text(),
        "The context of the kubeconfig, such as `{outputs.kube_context}`. It is never the current one by "
        "chance.",
        required=True,
    )
    kubeconfig: str | SecretRef | None = key(
        Text("the path of a file, or a secret reference to its content", secret=True, convert=_checked),
        "The kubeconfig: a path relative to `holdfast.yaml`, or a reference to a secret that is its content.",
        default_doc="as of `kubectl`: `KUBECONFIG`, or `~/.kube/config`",
    )


_RESOURCE_NAME: Final = _text("the name of a resource", r"[^\s/]+")
_NAMESPACE: Final = _text("the name of a namespace", r"[^\s/]+")


class KubernetesGate(Section, frozen=True, kw_only=True):
    api_version: str = key(_text(), "The version of the kind: `v1`, `apps/v1`.", default="apps/v1")
    kind: str = key(_text(), "The kind of the resource.", default="Deployment")
    name: str = key(_RESOURCE_NAME, "Its name.", required=True)
    namespace: str | None = key(_NAMESPACE, "Its namespace.", default_doc="that of the context")
    condition: str = key(
        _text("the type of a condition, or TYPE=STATUS", r"[^\s=]+(?:=[^\s=]+)?"),
        "The condition in its status that must be true, or have this status: `Available`, `Degraded=False`.",
        default="Available",
    )


class ArgocdGate(Section, frozen=True, kw_only=True):
    applications: tuple[str, ...] = key(
        ListOf(_RESOURCE_NAME, single=True),
        "The Applications that must be synced and healthy.",
        default_doc="all in the namespace, at least one",
    )
    namespace: str = key(_NAMESPACE, "The namespace of the Applications.", default="argocd")


class LoadBalancerGate(Section, frozen=True, kw_only=True):
    kind: str = key(
        Choice(("Service", "Gateway")),
        "What has the address: a Service of type LoadBalancer, or a Gateway.",
        default="Service",
    )
    name: str = key(_RESOURCE_NAME, "Its name.", required=True)
    namespace: str | None = key(_NAMESPACE, "Its namespace.", default_doc="that of the context")
    equals: tuple[str, ...] = key(
        ListOf(_text("an address or a host name", r"[^\s/]+"), single=True),
        "The addresses that it must have, exactly.",
        required=True,
    )


_KINDS: Final = ("tcp", "http", "dns", "tls", "oidc", "kubernetes", "argocd", "load_balancer", "run")
_OF_CLUSTER: Final = ("kubernetes", "argocd", "load_balancer")
"""Kinds that ask the cluster of the target."""


class Gate(Section, frozen=True, kw_only=True):
    """Exactly one of the kinds."""

    name: str = key(NAME, "The name of the gate, unique in its target.", required=True)
    tcp: TcpGate | None = key(TcpGate, "A port accepts connections.", default=None)
    http: HttpGate | None = key(HttpGate, "A response is as expected.", default=None)
    dns: DnsGate | None = key(DnsGate, "Names have exactly these addresses.", default=None)
    tls: TlsGate | None = key(
        TlsGate, "The certificate is trusted, for this name, and still valid.", default=None
    )
    oidc: OidcGate | None = key(
        OidcGate, "A test user can log in by the authorization code flow of OIDC.", default=None
    )
    kubernetes: KubernetesGate | None = key(
        KubernetesGate, "A resource of the cluster has a condition.", default=None
    )
    argocd: ArgocdGate | None = key(ArgocdGate, "Argo CD Applications are synced and healthy.", default=None)
    load_balancer: LoadBalancerGate | None = key(
        LoadBalancerGate, "A load balancer of the cluster has exactly these addresses.", default=None
    )
    run: tuple[str, ...] = key(
        ListOf(_text()),
        "A program and its arguments, as a list; it must exit with 0. There is no shell. It is confined like "
        "[hooks](hooks.md) and runs in the folder of `holdfast.yaml`.",
    )
    deadline: float = key(
        Duration(1, 86400), "How long the gate is checked again before it has failed.", default="10m"
    )
    interval: float = key(Duration(1, 3600), "The pause between two attempts.", default="5s")
    successes: int = key(Integer(1, 100), "How many attempts in a row must pass.", default=1)
    time_limit: float = key(Duration(1, 3600), "How long one attempt may take.", default="10s")
    environments: tuple[str, ...] = key(
        ListOf(Text(), single=True),
        "The environments of the target that it is checked in.",
        default_doc="all; a gate without placeholders is checked once for the target",
    )

    @property
    def kind(self) -> str:
        return next(name for name in _KINDS if getattr(self, name))

    @property
    def asks_cluster(self) -> bool:
        return self.kind in _OF_CLUSTER

    @property
    def settings(self) -> Any:
        """What the kind needs: a section, or the program to run."""
        return getattr(self, self.kind)

    @classmethod
    def check(cls, section: At, problems: Problems) -> None:
        given = [name for name in _KINDS if name in section.value]
        if len(given) != 1:
            what = f"has {listed(given)}" if given else "checks nothing"
            problems.add(
                "HF-CONF-5",
                f"{section.where} {what}; a gate has exactly one of {listed(_KINDS)}",
                place=section.place,
            )
        elif section.get("run") == ():
            problems.add(
                "HF-CONF-5",
                f"{section.where}.run is empty",
                place=section.value["run"].place,
                hint="Give the program and its arguments: run: [./smoke-test.sh]",
            )


def check_gates(target: At, problems: Problems) -> None:
    """`--gate NAME` must mean one gate, and a gate about a cluster needs one."""
    seen: set[str] = set()
    for gate in target.get("gates", ()):
        name = gate.get("name")
        if name in seen:
            problems.add(
                "HF-CONF-5",
                f"{target.where}.gates has two gates with the name `{name}`",
                place=gate.place,
                hint="Give each its own name.",
            )
        seen.add(name)
        kind = next((kind for kind in _OF_CLUSTER if kind in gate.value), None)
        if kind is not None and "kubernetes" not in target.value:
            problems.add(
                "HF-CONF-5",
                f"{gate.where}.{kind} needs the key `kubernetes` of the target",
                place=gate.place,
                hint='Say which cluster: kubernetes: { context: "{outputs.kube_context}" }',
            )
