"""The story of ``make up``: from an empty folder to a portal that answers, and back.

services -> demo nodes -> tables -> web and workers -> demo people, demo nodes enrolled -> address
printed -> watch. To add a process, add its line to the Procfile; it is started here with
the others.
"""

import os
import signal
import subprocess
import sys
import urllib.error
import urllib.request
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from types import FrameType

from portal.embedded.errors import EmbeddedError
from portal.embedded.foreground import Server
from portal.embedded.lifeline import tied_to_parent
from portal.embedded.postgres import Postgres, forget_socket_dir, new_socket_dir
from portal.embedded.valkey import Valkey

from . import demo, home, leftovers, options, procfile
from .children import Child, last_line, rotate
from .errors import StartError
from .options import BASE_DIR, Options
from .supervise import Supervisor, say

# The stop goes from the last tier to the first.
POSTGRES, VALKEY, DEMO_NODES, PORTAL = range(4)


def up(environment: Mapping[str, str]) -> int:
    """Run the portal until it is told to stop; returns the exit code."""
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, _interrupt)
    if signal.getsignal(signal.SIGHUP) != signal.SIG_IGN:  # nohup asks to outlive the terminal
        signal.signal(signal.SIGHUP, _interrupt)
    try:
        asked = options.read(environment)
        with home.lock(asked.home):
            return Portal(asked, environment).run()
    except (StartError, EmbeddedError) as refusal:
        say(str(refusal))
        return 1
    except KeyboardInterrupt:
        return 0


def _interrupt(_number: int, _frame: FrameType | None) -> None:
    raise KeyboardInterrupt


class Portal:
    """One start in one folder; its steps share the options, the environment and the children."""

    def __init__(self, asked: Options, environment: Mapping[str, str]) -> None:
        self.asked = asked
        self.home = asked.home
        self.supervisor = Supervisor(self.home / "processes.json")
        self.socket_dir: Path | None = None
        programs = str(Path(sys.executable).parent)
        self.env = {
            **environment,
            "PATH": f"{programs}{os.pathsep}{environment.get('PATH', os.defpath)}",
            "PYTHONUNBUFFERED": "1",
            "DJANGO_SETTINGS_MODULE": "portal.settings",
            "GANGWAY_HOME": str(self.home),
            "GANGWAY_BIND": asked.bind,
            "GANGWAY_URL": asked.url,
            "GANGWAY_DEMO": "1" if asked.demo else "0",
        }

    def run(self) -> int:
        try:
            self.start()
            self.supervisor.watch()
        except KeyboardInterrupt:
            say("Stopping.")
        finally:
            try:
                self.supervisor.stop()
            except KeyboardInterrupt:  # asked twice
                self.supervisor.kill()
            finally:
                self.forget_services()
        return 0

    def start(self) -> None:
        self.stop_leftovers()
        options.refuse_taken_port(
            self.asked.host,
            self.asked.port,
            what="The web server",
            next_step="Stop what listens there, or set GANGWAY_BIND to another port.",
        )
        home.keep_identity(self.home)
        self.start_services()
        first_time = not (self.home / "demo.json").exists()
        demo_nodes = self.start_demo_nodes()
        self.manage("migrate", "--no-input")
        web = self.start_portal()
        for node, child in demo_nodes.items():
            self.supervisor.wait_for(node.listens, child)
        if self.asked.demo:
            self.manage("demo_seed")
        elif not first_time:
            self.manage("demo_seed", "--withdraw")
        self.supervisor.wait_for(self.web_answers, web)
        self.announce(show_passwords=self.asked.demo and first_time)

    def stop_leftovers(self) -> None:
        stopped = leftovers.stop(self.supervisor.record)
        if stopped:
            say(f"Stopped what an earlier start had left running: {', '.join(stopped)}.")
        self.forget_services()

    def start_services(self) -> None:
        """Start what no address was given for, and write the addresses down for manage.py."""
        written = {}
        if not self.env.get("DATABASE_URL"):
            self.socket_dir = new_socket_dir()
            postgres = Postgres(self.home / "postgres", self.socket_dir)
            self.serve("postgres", postgres, tier=POSTGRES, polite=signal.SIGINT)
            self.env["DATABASE_URL"] = written["database_url"] = postgres.url
            written["socket_dir"] = str(self.socket_dir)
        if not self.env.get("REDIS_URL"):
            valkey = Valkey(self.home / "valkey")
            self.serve("valkey", valkey, tier=VALKEY, polite=signal.SIGTERM)
            self.env["REDIS_URL"] = written["redis_url"] = valkey.url
        home.write_private(self.home / "services.json", written)

    def serve(self, name: str, server: Server, *, tier: int, polite: signal.Signals) -> None:
        server.prepare()
        child = self.child(name, server.command(), tier=tier, polite=polite)
        self.supervisor.wait_for(server.ready, child)

    def start_demo_nodes(self) -> dict[demo.DemoNode, Child]:
        """Before the tables, which they do without: they boot while those are made."""
        found = demo.nodes(self.home, self.asked.demo_nodes) if self.asked.demo else []
        return {n: self.child(n.name, demo.serve_words(n), tier=DEMO_NODES) for n in found}

    def start_portal(self) -> Child:
        """Start what the Procfile lists; returns the web server."""
        commands = procfile.load(BASE_DIR / "Procfile", self.env)
        children = {n: self.child(n, words, tier=PORTAL) for n, words in commands.items()}
        return children["web"]

    def child(
        self,
        name: str,
        words: list[str],
        *,
        tier: int,
        polite: signal.Signals = signal.SIGTERM,
    ) -> Child:
        log = self.home / "logs" / f"{name}.log"
        child = Child(name, words, self.env, BASE_DIR, log, tier, polite)
        return self.supervisor.add(child)

    def manage(self, *words: str) -> None:
        """Run one manage.py command to its end, its output in logs/manage.log."""
        log = self.home / "logs/manage.log"
        rotate(log)
        with log.open("ab") as out:
            done = subprocess.run(  # noqa: S603 - words are ours, no shell
                [sys.executable, "manage.py", *words],
                env=self.env,
                cwd=BASE_DIR,
                stdin=subprocess.DEVNULL,
                stdout=out,
                stderr=out,
                preexec_fn=tied_to_parent(signal.SIGTERM),
                check=False,
            )
        if done.returncode != 0:
            said = last_line(log) or "it said nothing"
            raise StartError(
                f"manage.py {words[0]} ended with {done.returncode}: {said}.",
                next_step=f"Read {log}.",
            )

    def web_answers(self) -> bool:
        host = {"0.0.0.0": "127.0.0.1", "::": "::1"}.get(self.asked.host, self.asked.host)  # noqa: S104
        shown = f"[{host}]" if ":" in host else host
        try:
            urllib.request.urlopen(f"http://{shown}:{self.asked.port}/healthz", timeout=5).close()
        except urllib.error.HTTPError:
            return True  # an answer is an answer
        except OSError:
            return False
        return True

    def announce(self, *, show_passwords: bool) -> None:
        lines = [f"Gangway answers at {self.asked.url}"]
        if self.asked.demo:
            lines += demo.people(self.home, show_passwords=show_passwords)
        lines.append(
            "Ctrl-C stops everything, jobs on the demo nodes too."
            if self.asked.demo
            else "Ctrl-C stops it; jobs on the nodes run on."
        )
        with suppress(OSError):
            sys.stdout.write("\n".join(lines) + "\n")
            sys.stdout.flush()

    def forget_services(self) -> None:
        """Remove the socket folder that services.json names, and the file."""
        recorded = home.read(self.home / "services.json").get("socket_dir")
        for folder in filter(None, (recorded, self.socket_dir)):
            forget_socket_dir(Path(folder))
        (self.home / "services.json").unlink(missing_ok=True)
