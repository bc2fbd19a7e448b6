"""Lost connections, busy portals, wrong addresses: nothing is lost, nothing is done twice."""

import os
import signal
import socket
import subprocess
import sys
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from portal.client import Client, ClientError, Unreachable, config
from scheduling.models import Job
from tests import builders
from tests.client.flaky import Flaky, dice
from tests.portal.api_door import door

ORDER = {"team": "vision", "command": "true", "gpus": 1}


@pytest.fixture
def answering():
    """A server that answers what the story says, one answer after the other."""
    answers, seen = [], []

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_GET(self):
            seen.append((self.path, dict(self.headers)))
            status, headers, body = answers.pop(0) if len(answers) > 1 else answers[0]
            self.send_response(status)
            for name, value in {"Content-Length": str(len(body)), **headers}.items():
                self.send_header(name, value)
            self.end_headers()
            self.wfile.write(body)

        do_POST = do_GET

        def log_message(self, *args):
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    threading.Thread(target=server.serve_forever, daemon=True).start()
    server.url, server.answers, server.seen = (
        f"http://127.0.0.1:{server.server_port}",
        answers,
        seen,
    )
    yield server
    server.shutdown()
    server.server_close()


def closed_port() -> str:
    with socket.create_server(("127.0.0.1", 0)) as spare:
        return f"http://127.0.0.1:{spare.getsockname()[1]}"


@pytest.mark.django_db(transaction=True)
def test_a_job_is_submitted_once_wherever_the_connection_breaks(live_server, alice, no_pauses):
    builders.node("n1", cards=64)
    token = door(alice).auth["Authorization"].removeprefix("Bearer ")
    chance = dice(7)
    for number in range(1, 13):
        cuts = [chance.choice((0, 1, 20, 200, 900)) for _ in range(3)]
        wire = Flaky(live_server.url, iter(cuts))
        client = Client(wire.url, token, patience_s=60)

        job = client.submit(ORDER)

        assert wire.cut >= 1
        assert (job["state"], Job.objects.count()) == ("PENDING", number)
        client.connection.close()
        wire.close()


def test_a_busy_portal_is_asked_again_when_it_said_to(answering, no_pauses):
    busy = (503, {"Retry-After": "3", "Content-Type": "application/problem+json"}, b"{}")
    answering.answers += [busy, busy, (200, {"Content-Type": "application/json"}, b'{"id": 1}')]

    assert Client(answering.url, "gw_x", patience_s=60).job(1) == {"id": 1}
    assert no_pauses == [3.0, 3.0]


def test_a_portal_that_is_not_there_is_exit_code_3_with_its_address(gangway, no_pauses):
    config.save(config.Login(closed_port(), "gw_x"))

    ran = gangway("ls")

    assert (ran.code, ran.out) == (3, "")
    assert config.load().url in ran.err and "Connection refused" in ran.err
    assert "Traceback" not in ran.err


def test_a_redirect_is_not_followed_with_the_token(answering, gangway):
    answering.answers.append((302, {"Location": "https://elsewhere.example/"}, b""))
    config.save(config.Login(answering.url, "gw_x"))

    ran = gangway("ls")

    assert ran.code == 1 and "https://elsewhere.example/" in ran.err
    assert len(answering.seen) == 1


@pytest.mark.parametrize(
    "answer",
    [
        (502, {"Content-Type": "text/html"}, b"<h1>Bad gateway</h1>"),
        (200, {"Content-Type": "text/html"}, b"<h1>Hello</h1>"),
        (404, {"Content-Type": "application/problem+json"}, b"not json"),
        (400, {"Content-Type": "application/problem+json"}, b"[]"),
        (200, {"Content-Type": "application/json"}, b"[" * 100_000),
        (200, {"Content-Type": "application/json"}, b"null"),
        (200, {"Content-Type": "application/json"}, b"{}"),
    ],
)
def test_what_is_no_portal_is_told_so_without_a_traceback(answering, gangway, answer):
    answering.answers.append(answer)
    config.save(config.Login(answering.url, "gw_x"))

    ran = gangway("show", "1")

    assert (ran.code, ran.out) == (1, "")
    assert "Gangway portal" in ran.err and "Traceback" not in ran.err


@pytest.mark.parametrize("body", [b"[]", b"null", b'{"results": 5}', b'{"results": [7]}'])
def test_a_list_of_another_shape_is_told_so(answering, gangway, body):
    answering.answers.append((200, {"Content-Type": "application/json"}, body))
    config.save(config.Login(answering.url, "gw_x"))
    for verb in ("ls", "nodes", "tokens"):
        ran = gangway(verb)
        assert ran.code == 1 and "Gangway portal" in ran.err


def test_a_problem_whose_fields_are_odd_is_told_all_the_same(answering, gangway):
    body = b'{"detail": "No.", "next_step": 1, "fields": [1, 2]}'
    answering.answers.append((400, {"Content-Type": "application/problem+json"}, body))
    config.save(config.Login(answering.url, "gw_x"))
    assert "gangway: No." in gangway("ls").err


@pytest.mark.parametrize("token", ["gw_x\r\nX-More: 1", "gw_\u2603", "gw_\u00e9"])
def test_a_token_that_cannot_be_sent_is_wrong_usage(answering, gangway, monkeypatch, token):
    monkeypatch.setenv("GANGWAY_URL", answering.url)
    monkeypatch.setenv("GANGWAY_TOKEN", token)
    ran = gangway("ls")
    assert ran.code == 2 and "GANGWAY_TOKEN" in ran.err and not answering.seen


@pytest.mark.parametrize("url", ["http://a b", "http://\u2603." + "x" * 80, "http://h/\u00e9"])
def test_an_address_that_cannot_be_asked_is_wrong_usage(gangway, monkeypatch, url):
    monkeypatch.setenv("GANGWAY_URL", url)
    monkeypatch.setenv("GANGWAY_TOKEN", "gw_x")
    assert gangway("ls").code == 2


def test_the_proxies_of_the_environment_are_not_used(answering, monkeypatch):
    answering.answers.append((200, {"Content-Type": "application/json"}, b'{"id": 1}'))
    monkeypatch.setenv("http_proxy", closed_port())

    assert Client(answering.url, "gw_x").job(1) == {"id": 1}


def test_a_saved_token_is_sent_to_the_address_it_was_made_for_only(answering, monkeypatch):
    answering.answers.append((200, {"Content-Type": "application/json"}, b"{}"))
    config.save(config.Login("https://portal.example", "gw_secret"))
    monkeypatch.setenv("GANGWAY_URL", answering.url)

    Client().job(1)
    Client(answering.url).job(1)

    assert all("Authorization" not in headers for _, headers in answering.seen)
    monkeypatch.setenv("GANGWAY_TOKEN", "gw_mine")
    Client().job(1)
    assert answering.seen[-1][1]["Authorization"] == "Bearer gw_mine"


def test_a_password_in_the_clear_is_warned_of_beyond_this_machine(answering, gangway, monkeypatch):
    answering.answers.append((201, {"Content-Type": "application/json"}, b'{"token": "gw_x"}'))
    at = ("--user", "alice", "--password-stdin")

    assert "Warning" not in gangway("login", "--url", answering.url, *at, stdin="pw\n").err
    monkeypatch.setattr("portal.client.commands._is_loopback", lambda host: False)
    assert "not encrypted" in gangway("login", "--url", answering.url, *at, stdin="pw\n").err


def test_a_password_is_sent_once_even_if_the_answer_is_lost(answering, no_pauses):
    answering.answers.append((503, {"Retry-After": "1"}, b""))

    with pytest.raises(ClientError):
        Client.login(answering.url, "alice", "pw", name="x")
    assert len(answering.seen) == 1
    with pytest.raises(Unreachable):
        Client.login(closed_port(), "alice", "pw", name="x")


def test_a_broken_configuration_says_which_file_and_what_to_do(gangway):
    config.save(config.Login("http://127.0.0.1:1"))
    config.path().write_text("{")

    ran = gangway("ls")

    assert ran.code == 1 and str(config.path()) in ran.err and "gangway login" in ran.err


def test_an_interrupt_ends_the_command_quietly_with_130(answering):
    answering.answers.append((200, {"Content-Type": "application/json"}, b'{"done": false}'))
    program = _command(answering.url, "wait", "1")
    while len(answering.seen) < 2:
        assert program.poll() is None
        os.sched_yield()

    program.send_signal(signal.SIGINT)
    out, err = program.communicate(timeout=30)

    assert (program.returncode, out, err) == (130, b"", b"")


def test_a_reader_that_goes_away_ends_the_command_quietly(answering):
    log = {
        "Content-Type": "application/octet-stream",
        "X-Next-Offset": "65536",
        "X-Log-Ended": "false",
        "X-Attempt": "1",
    }
    answering.answers.append((200, log, b"x" * 65536))
    program = _command(answering.url, "logs", "-f", "1")

    assert program.stdout.read(10) == b"x" * 10
    program.stdout.close()

    assert (program.wait(30), program.stderr.read()) == (0, b"")
    program.stderr.close()


def test_an_output_that_takes_nothing_is_told_without_a_traceback(answering):
    listed = b'{"results": [], "next_cursor": null}'
    answering.answers.append((200, {"Content-Type": "application/json"}, listed))
    with Path("/dev/full").open("wb") as full:
        program = _command(answering.url, "ls", stdout=full)
        _, err = program.communicate(timeout=30)
    assert program.returncode == 1 and b"could not be written" in err
    assert b"Traceback" not in err and b"Exception" not in err


def _command(url: str, *argv: str, stdout=subprocess.PIPE) -> subprocess.Popen[bytes]:
    return subprocess.Popen(
        [sys.executable, "-m", "portal.client.main", *argv],
        env={**os.environ, "GANGWAY_URL": url, "GANGWAY_TOKEN": "gw_x"},
        stdout=stdout,
        stderr=subprocess.PIPE,
        # Tests that run in the background of a shell ignore interrupts, and so would this.
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),
    )
