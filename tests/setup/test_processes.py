"""One list of processes: the Procfile, the containers and the supervisor start the same words."""

import importlib.util
import json
import shlex
from pathlib import Path

import jsonschema
import pytest
import yaml

from portal.supervisor import procfile
from portal.supervisor.errors import StartError
from portal.supervisor.options import BASE_DIR

SERVICES_BESIDE = {"postgres", "valkey", "migrate"}


def compose():
    return yaml.safe_load((BASE_DIR / "docker-compose.yml").read_text())


def words(command):
    return shlex.split(command) if isinstance(command, str) else command


def test_the_containers_start_the_very_words_of_the_procfile():
    services = compose()["services"]
    containers = {n: words(s["command"]) for n, s in services.items() if n not in SERVICES_BESIDE}
    bind = services["web"]["environment"]["GANGWAY_BIND"]

    assert containers == procfile.load(BASE_DIR / "Procfile", {"GANGWAY_BIND": bind})


def test_every_queue_that_tasks_are_sent_to_has_a_worker():
    commands = procfile.load(BASE_DIR / "Procfile", {"GANGWAY_BIND": "x:1"})
    served = {
        queue for c in commands.values() if "-Q" in c for queue in c[c.index("-Q") + 1].split(",")
    }

    assert served == {"cycle", "control", "nodes", "nodes-reads"}


def test_the_compose_file_keeps_to_the_compose_specification():
    package = importlib.util.find_spec("check_jsonschema")
    assert package is not None and package.submodule_search_locations
    vendored = "builtin_schemas/vendor/compose-spec.json"
    schema = json.loads((Path(package.submodule_search_locations[0]) / vendored).read_text())

    jsonschema.validate(compose(), schema)


def test_no_container_answers_beyond_this_machine_unless_asked():
    published = [p for s in compose()["services"].values() for p in s.get("ports", [])]

    assert published == ["127.0.0.1:8000:8000"]


@pytest.mark.parametrize("line", ["web gunicorn", "web: gunicorn $NOT_SET", "web: 'gunicorn"])
def test_a_procfile_line_that_cannot_be_used_is_named(line):
    with pytest.raises(StartError, match="cannot be used"):
        procfile.parse(line, {})
