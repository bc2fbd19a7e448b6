"""Two machines behind Debian's sshd with one home, enrolled like any node, and a hand that drives.

No worker runs: ``drive`` calls what the workers would, so that a story decides the order. Events
of the kept connections come as they do in production.
"""

import json
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from django.core.management import call_command

from nodes import channel, hearing
from nodes.demo import nvml
from nodes.models import Node
from scheduling import cycle, finishing, launch, ledger_check, looks, reports
from scheduling.models import Attempt, Job
from scheduling.states import DONE
from tests.nodes.machines import NVML, OpenSsh, until


@pytest.fixture(scope="session")
def hosts(tmp_path_factory) -> Iterator[dict[str, OpenSsh]]:
    """Hosts a and b on addresses of their own; b's home is a's."""
    folder = tmp_path_factory.mktemp("hosts")
    found: dict[str, OpenSsh] = {}
    for name, address in (("a", "127.0.6.1"), ("b", "127.0.6.2")):
        place = folder / name
        place.mkdir()
        if name == "b":
            (place / "home").symlink_to(folder / "a" / "home")
        state = nvml.default_state("NVIDIA H100 80GB HBM3", 81559, 8, name)
        (place / "nvml.json").write_text(json.dumps(state))
        found[name] = OpenSsh(place, address)
    yield found
    for host in found.values():
        host.kill()


def enrol(name: str, host: OpenSsh, **more: object) -> Node:
    call_command(
        "add_node",
        host.address,
        port=host.port,
        account=host.account,
        name=name,
        authorized_keys=str(host.authorized_keys),
        yes=True,
        nvml_module=NVML,
        **more,
    )
    return Node.objects.get(name=name)


@pytest.fixture
def nodes(transactional_db, shop, hosts, settings, tmp_path) -> Iterator[dict[str, Node]]:
    """Both hosts as nodes of this story's portal; connections and readers end with it."""
    settings.GANGWAY_HOME = tmp_path
    hearing.listen(reports.heard)
    yield {name: enrol(name, host, take_over=True) for name, host in hosts.items()}
    reports.take()
    differences = ledger_check.of_rows()
    hearing.listen(None)
    for attempt in Attempt.objects.filter(ended_at=None):
        launch.stop(attempt.pk)
    channel.close_all()
    # whatever the story was: at its end all accounts agree
    assert [str(found) for found in differences] == []


def step() -> None:
    """One round of what the workers do."""
    cycle.serve(always=True)
    for attempt in Attempt.objects.filter(ended_at=None).select_related("job"):
        if attempt.job.state in ("PLACED", "STARTING"):
            launch.launch([attempt.pk])
        elif attempt.job.state == "STOPPING":
            launch.stop(attempt.pk)
        elif attempt.job.state == "CLEANING":
            finishing.finish(attempt.pk)
    reports.take()


def look() -> None:
    for node in Node.objects.all():
        looks.look(node.pk)


@pytest.fixture
def drive() -> Callable[..., Job]:
    """Drive a job until it is in a state (or has ended); returns its fresh row."""

    def to(job: Job, *states: str, within_s: float = 30) -> Job:
        wanted = set(states) or set(DONE)

        def there() -> bool:
            step()
            job.refresh_from_db()
            return job.state in wanted

        until(there, within_s=within_s, what=f"job {job.pk} is {sorted(wanted)}, now {job.state}")
        return job

    return to


@pytest.fixture
def evidence(tmp_path: Path) -> Path:
    """A file outside every portal and node, to which jobs append what they did."""
    return tmp_path / "evidence"
