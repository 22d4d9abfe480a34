from __future__ import annotations

from collections.abc import Mapping

import pytest

from holdfast.terraform.tables.import_ids import (
    ImportId,
    NotImportable,
    NotKnown,
    attributes_needed,
    find_import_id,
    shipped_table,
)
from holdfast.terraform.tables.import_template import Missing, fill, parse

Values = Mapping[str, object]


@pytest.mark.parametrize(
    ("template", "values", "text"),
    [
        ("account", {}, "account"),
        ("{a}", {"a": "x"}, "x"),
        ("{a}/{b}", {"a": "x", "b": "y"}, "x/y"),
        ("{a}|{b}", {"a": "x", "b": "y"}, "x|y"),
        ("{a}_{n}_{f}", {"a": True, "n": 0, "f": 2.0}, "true_0_2"),
        ("{n}", {"n": 1.5}, "1.5"),
        ("{a}", {"a": False}, "false"),
        ("{a|b}", {"a": None, "b": "y"}, "y"),
        ("{a|b}", {"a": "", "b": "y"}, "y"),
        ("{a|b}", {"a": "x"}, "x"),
        ('{a|"x y"}', {"a": None}, "x y"),
        ('{a|"false"}', {"a": False}, "false"),
        ("{a|id}", {"id": "i"}, "i"),
        ("{a~/}", {"a": "arn:x/y/z"}, "z"),
        ("{a~/}", {"a": "z"}, "z"),
        ('{a~/|"d"}', {"a": None}, "d"),
        ("{a*_}", {"a": ["1", "2"]}, "1_2"),
        ("{u}/{g*/}", {"u": "u", "g": ["x", "y"]}, "u/x/y"),
        ("{b}[_{a?self}]", {"b": "x", "a": True}, "x_self"),
        ("{b}[_{a?self}]", {"b": "x", "a": False}, "x"),
        ("{b}[_{a?self}]", {"b": "x", "a": None}, "x"),
        ("{n=~projects/([^/]+)/}/{id}", {"n": "https://x/projects/p1/global/n", "id": "i"}, "p1/i"),
        ("{a.0.b}", {"a": [{"b": "x"}]}, "x"),
        ("{a.b}", {"a": {"b": "x"}}, "x"),
        ("{id}[,{a}]", {"id": "i", "a": None}, "i"),
        ("{id}[,{a}]", {"id": "i", "a": "SELF"}, "i,SELF"),
        ("{id}[,{a},{b}]", {"id": "i", "a": "x", "b": ""}, "i"),
        ("{id}[,{a.0.b}]", {"id": "i", "a": []}, "i"),
        ("{id}[_{a*_}]", {"id": "i", "a": []}, "i"),
        ("[{a},]{id}", {"id": "i", "a": "p"}, "p,i"),
    ],
)
def test_a_template_makes_an_id(template: str, values: Values, text: str) -> None:
    """Every construct of the language means what the table says it means."""
    assert fill(parse(template), values) == text


@pytest.mark.parametrize(
    ("template", "values", "names"),
    [
        ("{a}", {}, ("a",)),
        ("{a}", {"a": None}, ("a",)),
        ("{a}", {"a": ""}, ("a",)),
        ("{a}", {"a": ["x"]}, ("a",)),
        ("{a}/{b}", {}, ("a", "b")),
        ("{a|b}", {"b": "y"}, ("a",)),
        ('{a|"default"}', {}, ("a",)),
        ("{a|b}", {"a": None, "b": None}, ("a", "b")),
        ("{id}[,{a}]", {"id": "i"}, ("a",)),
        ("{id}[,{a.0.b}]", {"id": "i", "a": [{}]}, ("a.0.b",)),
        ("{id}[,{a.0.b}]", {"id": "i", "a": [None]}, ("a.0.b",)),
        ("{id}[,{a.b}]", {"id": "i", "a": "text"}, ("a.b",)),
        ("{a*_}", {"a": ["1", None]}, ("a",)),
        ("{a*_}", {"a": "1"}, ("a",)),
        ("{a?x}", {"a": "yes"}, ("a",)),
        ("{a~/}", {"a": {}}, ("a",)),
        ("{a=~(x)}", {"a": "y"}, ("a",)),
        ("{a=~(x)}", {}, ("a",)),
        ("{a}{a}", {}, ("a",)),
    ],
)
def test_no_id_is_built_with_an_unknown_value(template: str, values: Values, names: tuple[str, ...]) -> None:
    """A value that is unknown, or empty although required, is named."""
    assert fill(parse(template), values) == Missing(names=names)


@pytest.mark.parametrize(
    "template", ["", "{a", "[{a}", "{a}]", "[x]", "[[{a}]]", "{}", "{A}", "{a=~x}", "{a|}", '{"x}', "{a.}"]
)
def test_an_invalid_template_is_refused(template: str) -> None:
    """A mistake in the table is found by a test, not by a person with an orphan."""
    with pytest.raises(ValueError, match=r"."):
        parse(template)


def test_every_shipped_rule_can_be_read() -> None:
    """All 365 rules are there, each of them is a template, and every list names something."""
    table = shipped_table()
    assert len(table.templates) == 365
    assert all(parse(text).parts for text in table.templates.values())
    assert len(table.never) == 116
    assert len(table.looked_up) == 93
    assert all(note.endswith(".") for note in table.notes.values())


@pytest.mark.parametrize(
    ("type_", "id_", "attributes", "value"),
    [
        ("azurerm_subnet", "/subscriptions/1/x", {}, "/subscriptions/1/x"),
        ("somebody_thing", "t-1", {}, "t-1"),
        ("aws_vpc", "vpc-1", {}, "vpc-1"),
        (
            "aws_api_gateway_resource",
            "r1",
            {"rest_api_id": "a1"},
            "a1/r1",
        ),
        (
            "aws_security_group_rule",
            "sgrule-1",
            {
                "security_group_id": "sg-1",
                "type": "ingress",
                "protocol": "tcp",
                "from_port": 0,
                "to_port": 443,
                "self": False,
                "source_security_group_id": None,
                "cidr_blocks": ["10.0.0.0/8", "10.1.0.0/16"],
                "ipv6_cidr_blocks": None,
                "prefix_list_ids": [],
            },
            "sg-1_ingress_tcp_0_443_10.0.0.0/8_10.1.0.0/16",
        ),
        (
            "aws_route",
            "r-1",
            {
                "route_table_id": "rtb-1",
                "destination_cidr_block": None,
                "destination_ipv6_cidr_block": "::/0",
            },
            "rtb-1_::/0",
        ),
        ("aws_db_instance", "db-ABC", {}, "db-ABC"),
        (
            "google_project_iam_member",
            "p1/roles/viewer/user:jane@example.com",
            {"role": "roles/viewer", "member": "user:Jane@example.com", "condition": []},
            "p1 roles/viewer user:Jane@example.com",
        ),
        (
            "google_storage_bucket_iam_binding",
            "b/my-bucket/roles/viewer",
            {"role": "roles/viewer", "condition": [{"title": "until noon"}]},
            "b/my-bucket roles/viewer until noon",
        ),
        (
            "google_folder_iam_audit_config",
            "folders/7/audit_config/allServices",
            {"service": "allServices"},
            "folders/7 allServices",
        ),
        ("google_project_iam_policy", "p1", {}, "p1"),
        (
            "google_compute_network_peering",
            "net/peer",
            {"network": "projects/p1/global/networks/net"},
            "p1/net/peer",
        ),
        ("terraform_data", "u-1", {"triggers_replace": None}, "u-1"),
        ("random_id", "p-9hUg", {"prefix": "web-", "keepers": None}, "web-,p-9hUg"),
        ("random_id", "p-9hUg", {"prefix": None, "keepers": {}}, "p-9hUg"),
        ("random_integer", "5", {"min": 1, "max": 9, "seed": None, "keepers": None}, "5,1,9"),
        ("random_uuid", "u-1", {"keepers": None}, "u-1"),
        ("time_static", "2026-01-01T00:00:00Z", {"triggers": None}, "2026-01-01T00:00:00Z"),
    ],
)
def test_an_import_id_is_built(type_: str, id_: str, attributes: Values, value: str) -> None:
    """By the id, by a type's own rule, by a rule with a *, or by the base of Google's policies."""
    answer = find_import_id(type_=type_, id_=id_, attributes=attributes)
    assert isinstance(answer, ImportId)
    assert answer.value == value


@pytest.mark.parametrize(
    ("type_", "id_", "attributes", "needs"),
    [
        ("somebody_thing", None, {}, ("id",)),
        ("somebody_thing", "", {}, ("id",)),
        ("aws_api_gateway_resource", "r1", {}, ("rest_api_id",)),
        ("aws_cloudwatch_event_target", "x", {"rule": "r", "target_id": "t"}, ("event_bus_name",)),
        ("aws_ecs_task_definition", "family", {"family": "family"}, ("arn",)),
        ("google_project_iam_member", "p1/roles/x/u", {"member": "u", "condition": []}, ("base", "role")),
        (
            "google_project_iam_member",
            "p1/roles/viewers/u",
            {"role": "roles/view", "member": "u", "condition": []},
            ("base",),
        ),
        ("google_folder_iam_audit_config", "folders/7", {"service": "s"}, ("base",)),
    ],
)
def test_what_is_not_known_is_named(type_: str, id_: str | None, attributes: Values, needs: object) -> None:
    """No id is guessed: the answer says what a person has to look up."""
    answer = find_import_id(type_=type_, id_=id_, attributes=attributes)
    assert isinstance(answer, NotKnown)
    assert answer.needs == needs
    assert answer.reason


def test_a_value_that_only_the_provider_knows_is_explained() -> None:
    """A person is sent to the provider, with the form of the id and what helps to find it."""
    answer = find_import_id(type_="aws_ecs_task_definition", id_="f", attributes={})
    assert isinstance(answer, NotKnown)
    assert "`arn` is known only to the provider" in answer.reason
    assert answer.note is not None


@pytest.mark.parametrize(
    ("value", "region", "expected"),
    [
        ("vpc-1", "eu-west-1", "vpc-1@eu-west-1"),
        ("arn:aws:x:eu-west-1:1:y", "eu-west-1", "arn:aws:x:eu-west-1:1:y"),
        ("https://sqs.eu-west-1.example/1/q", "eu-west-1", "https://sqs.eu-west-1.example/1/q"),
        ("vpc-1", None, "vpc-1"),
    ],
)
def test_an_aws_resource_is_imported_from_its_own_region(
    value: str, region: str | None, expected: str
) -> None:
    """A namesake in the region of the provider is never imported instead."""
    answer = find_import_id(type_="aws_vpc", id_=value, attributes={"region": region})
    assert answer == ImportId(value=expected)
    assert find_import_id(type_="other_vpc", id_="v", attributes={"region": "x"}) == ImportId(value="v")


@pytest.mark.parametrize(
    ("type_", "attributes"),
    [
        ("terraform_data", {"triggers_replace": "two"}),
        ("terraform_data", {}),
        ("null_resource", {}),
        ("random_password", {}),
        ("random_pet", {}),
        ("random_id", {"prefix": None, "keepers": {"a": "b"}}),
        ("random_integer", {"keepers": None}),
        ("time_sleep", {}),
        ("tls_private_key", {}),
        ("local_file", {}),
    ],
)
def test_a_resource_that_exists_only_in_the_state_is_recreated(type_: str, attributes: Values) -> None:
    """Where an import is impossible or pointless and nothing is lost, a plan may make it again."""
    answer = find_import_id(type_=type_, id_="x", attributes=attributes)
    assert isinstance(answer, NotImportable)
    assert answer.harmless


@pytest.mark.parametrize(
    "type_", ["aws_iam_policy_attachment", "google_service_account_key", "google_project_iam_member_remove"]
)
def test_a_type_without_an_import_is_not_harmless(type_: str) -> None:
    """A real resource that cannot be imported never counts as recreatable."""
    answer = find_import_id(type_=type_, id_="x", attributes={"role": "r", "member": "m"})
    assert isinstance(answer, NotImportable)
    assert not answer.harmless


def test_a_release_that_is_too_old_is_hinted_at() -> None:
    """Some types can be imported only from a release of their provider on."""
    answer = find_import_id(type_="aws_lb_target_group_attachment", id_="x", attributes={})
    assert isinstance(answer, ImportId)
    assert "6.34" in (answer.note or "")


def test_a_plan_knows_what_to_remember() -> None:
    """The attributes that a rule reads are named before the run, when they can still be kept."""
    assert attributes_needed("aws_route") == {
        "route_table_id",
        "destination_cidr_block",
        "destination_ipv6_cidr_block",
        "destination_prefix_list_id",
        "region",
    }
    assert attributes_needed("google_project_iam_member") == {"role", "member", "condition"}
    assert attributes_needed("random_id") == {"prefix", "keepers"}
    assert attributes_needed("null_resource") == frozenset()
    assert attributes_needed("somebody_thing") == frozenset()


def test_the_table_does_not_contradict_itself() -> None:
    """A type is imported by a rule or not at all, and no row covers everything."""
    table = shipped_table()
    assert not table.never & table.templates.keys()
    assert table.looked_up <= table.templates.keys()
    for row in table.recreatable:
        assert row.type.strip("*")
        assert row.why
        assert row.template is None or parse(row.template).parts
