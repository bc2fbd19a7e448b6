"""A portal that really listens, and the command run against it as a person would."""

import io
from dataclasses import dataclass

import pytest

from portal.client import config
from portal.client.main import main
from tests.portal.api_door import door
from tests.portal.conftest import _quick_passwords  # noqa: F401


@dataclass
class Ran:
    code: int
    out: str
    err: str
    raw: bytes


@pytest.fixture(autouse=True)
def _own_home(tmp_path, monkeypatch):
    """No test reads or writes the files of whoever runs it."""
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    for name in ("GANGWAY_URL", "GANGWAY_TOKEN"):
        monkeypatch.delenv(name, raising=False)


@pytest.fixture
def gangway(capsysbinary, monkeypatch):
    """Run the command in this process."""

    def run(*argv: str, stdin: str | None = None) -> Ran:
        if stdin is not None:
            monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(stdin.encode())))
        capsysbinary.readouterr()
        try:
            code = main(argv)
        except SystemExit as exit_:
            code = int(exit_.code or 0)
        out, err = capsysbinary.readouterr()
        return Ran(code, out.decode(errors="replace"), err.decode(), out)

    return run


@pytest.fixture
def signed_in(live_server, shop):
    """Alice's token is where ``gangway login`` puts it."""
    token = door(shop.users["alice"]).auth["Authorization"].removeprefix("Bearer ")
    config.save(config.Login(live_server.url, token, "alice"))
    return live_server.url


@pytest.fixture
def no_pauses(monkeypatch):
    """Nobody sleeps; what would have been slept is kept, in seconds."""
    slept: list[float] = []
    monkeypatch.setattr("time.sleep", slept.append)
    return slept
