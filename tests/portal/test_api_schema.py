"""The OpenAPI document and docs/api.md say what the API does; answers are held against them."""

import re
from pathlib import Path

import pytest
from django.urls import get_resolver
from drf_spectacular.validation import validate_schema
from jsonschema import Draft202012Validator

from portal.api import errors, schema
from scheduling.models import Attempt, Part
from scheduling.order_fields import FIELDS
from tests import builders
from tests.portal.api_door import door
from tests.scheduling.test_reservations import book

PAGE = Path(__file__).parents[2] / "docs" / "api.md"


@pytest.fixture
def document():
    return schema.document()


def routes() -> list[str]:
    api = next(p for p in get_resolver().url_patterns if str(p.pattern) == "api/v1/")
    found = [str(p.pattern) for p in api.url_patterns if str(p.pattern)]
    return ["/api/v1/" + re.sub(r"<\w+:(\w+)>", r"{\1}", route) for route in found]


def test_the_schema_is_valid_and_has_every_route(document, capsys):
    validate_schema(document)

    assert sorted(document["paths"]) == sorted(routes())


def test_every_operation_has_a_name_of_its_own_and_tells_its_refusals(document):
    operations = [op for path in document["paths"].values() for op in path.values()]

    assert len({op["operationId"] for op in operations}) == len(operations)
    for op in operations:
        if op["operationId"] != "get_schema":
            told = op["responses"]["401"]["content"]
            assert told["application/problem+json"]["schema"]["$ref"].endswith("/Problem")


def test_the_described_order_has_exactly_the_fields_that_are_read(document):
    order = document["components"]["schemas"]["JobOrder"]

    assert set(order["properties"]) == set(FIELDS)
    assert set(order["required"]) == {"team", "command", "gpus"}


@pytest.mark.django_db
def test_answers_have_the_described_shape(document, alice):
    job = builders.job(alice) if builders.node("n1", cards=2) else None
    attempt = Attempt.objects.create(job=job, number=1, placed_at=job.submitted_at)
    Part.objects.create(
        attempt=attempt, node=builders.node("n2"), ranks=1, cpus=1, memory_mib=1, port=29400
    )
    slot = book(alice, job.submitted_at, gpus=1)
    program = door(alice)
    plain = [path for path, ops in document["paths"].items() if "get" in ops and "/log" not in path]

    for path in plain:
        numbers = {"job_id": str(job.pk), "reservation_id": str(slot.pk)}
        answer = program.get(path.format(**numbers))
        described = document["paths"][path]["get"]["responses"]["200"]["content"]
        _check(document, described["application/json"]["schema"], answer.json(), path)
    for path in ("jobs", "jobs/999/cancel", "tokens"):
        order = {"team": "vision", "command": "true", "gpus": 1} if path == "jobs" else {}
        answer = program.post(path, order)
        operation = document["paths"]["/api/v1/" + path.replace("999", "{job_id}")]["post"]
        (kind,) = operation["responses"][str(answer.status_code)]["content"].items()
        assert answer["Content-Type"] == kind[0]
        _check(document, kind[1]["schema"], answer.json(), path)


@pytest.mark.django_db
def test_the_document_is_served_to_anybody(document):
    assert door().get("schema").json() == document


def test_the_page_of_the_api_has_every_route_parameter_and_code(document):
    page = PAGE.read_text()
    codes = {code for code, _ in errors._FRAMEWORK.values()}
    parameters = {
        parameter["name"]
        for path in document["paths"].values()
        for operation in path.values()
        for parameter in operation.get("parameters", [])
        if parameter["in"] != "path"
    }

    wanted = [*routes(), *sorted(codes), *sorted(parameters), *FIELDS]
    assert [name for name in wanted if f"`{name}`" not in page] == []


def _check(document, described, value, path):
    whole = {**described, "components": document["components"]}
    wrong = [error.message for error in Draft202012Validator(_nullable(whole)).iter_errors(value)]
    assert wrong == [], path


def _nullable(node):
    """OpenAPI 3.0 says ``nullable`` where JSON Schema says that null is one of the types.

    Objects are closed as well, so that an answer with a field nobody described is found.
    """
    if isinstance(node, list):
        return [_nullable(item) for item in node]
    if not isinstance(node, dict):
        return node
    plain = {name: _nullable(value) for name, value in node.items() if name != "nullable"}
    if "properties" in plain and plain.get("type") == "object":
        plain.setdefault("additionalProperties", False)
    return {"anyOf": [plain, {"type": "null"}]} if node.get("nullable") is True else plain
