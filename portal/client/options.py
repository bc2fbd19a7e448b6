"""What may be typed after ``gangway``; docs/cli.md has every option, and a test compares."""

import argparse
from collections.abc import Sequence

from . import estimates

LEVELS = ("island", "node", "rack", "block")
AXES = ("tp", "pp", "dp")
SUBMIT_FIELDS = (
    "team", "pool", "name", "gpus", "nodes", "gpu_model", "gpu_memory_gib", "gpu_capability",
    "cpus", "memory_gib", "disk_gib", "workdir", "time_limit", "priority", "reservation",
    "launch", "device_ids", "begin_at",
)  # fmt: skip


def parser() -> argparse.ArgumentParser:
    """The whole command line."""
    whole = argparse.ArgumentParser(
        prog="gangway", description="Run jobs on the GPUs that your group shares."
    )
    verbs = whole.add_subparsers(dest="verb", required=True, metavar="VERB")
    _login(verbs.add_parser("login", help="sign in and keep a token"))
    verbs.add_parser("logout", help="delete the token that login made")
    _submit(verbs.add_parser("submit", help="submit a job"))
    estimate = verbs.add_parser("estimate", help="how much GPU memory a training run takes")
    estimates.add_options(estimate)
    _json(estimate)
    _ls(verbs.add_parser("ls", help="list jobs"))
    _one_job(verbs, "show", "show a job", json=True)
    _one_job(verbs, "explain", "say why a job waits and what would help", json=True)
    _logs(_one_job(verbs, "logs", "read a job's log"))
    for verb, told in (
        ("cancel", "end a job"),
        ("hold", "keep a waiting job from starting"),
        ("release", "let a held job wait for its turn again"),
    ):
        _one_job(verbs, verb, told).add_argument("--reason", default="", help="kept in the log")
    _one_job(verbs, "wait", "wait until a job has ended; its end is the exit code")
    _reserve(verbs.add_parser("reserve", help="book cards for a slot"))
    slots = verbs.add_parser("reservations", help="list what your teams have booked")
    slots.add_argument("--mine", action="store_true", help="your own only")
    _json(slots)
    held = _one_job(verbs, "env", "lines for eval: the cards of a reservation")
    held.add_argument("--node", default="", help="of several")
    for verb, told in (("nodes", "list machines"), ("teams", "list your teams")):
        _json(verbs.add_parser(verb, help=told))
    _tokens(verbs.add_parser("tokens", help="list, create or delete tokens"))
    return whole


def parse(argv: Sequence[str]) -> argparse.Namespace:
    """Options, and in ``words`` what stands behind ``--`` (None without one)."""
    given = list(argv)
    cut = given.index("--") if "--" in given else len(given)
    options = parser().parse_args(given[:cut])
    options.words = given[cut + 1 :] if cut < len(given) else None
    if options.words is not None and options.verb != "submit":
        parser().error("only submit takes a command behind --")
    return options


def _login(verb: argparse.ArgumentParser) -> None:
    verb.add_argument("--url", help="address of the portal")
    verb.add_argument("--user", help="your name there")
    verb.add_argument("--password-stdin", action="store_true", help="read the password from stdin")


def _submit(verb: argparse.ArgumentParser) -> None:
    verb.usage = "gangway submit [options] (-- COMMAND... | [-f] SCRIPT | < SCRIPT)"
    verb.add_argument("script", nargs="?", help="a script file; - is standard input")
    verb.add_argument("-f", "--file", help="the same")
    verb.add_argument("--team", help="by default the only one you have")
    verb.add_argument("--pool")
    verb.add_argument("--name")
    verb.add_argument("--gpus", type=int, default=1, help="in all (1)")
    verb.add_argument("--nodes", type=int)
    verb.add_argument("--gpu-model")
    verb.add_argument("--gpu-memory-gib", type=float, help="at least, per GPU")
    verb.add_argument("--gpu-capability", metavar="M.N", help="compute capability, at least")
    verb.add_argument("--tp", type=int, help="size of a tensor-parallel group")
    verb.add_argument("--pp", type=int, help="stages of a pipeline")
    verb.add_argument("--dp", type=int, help="copies of the model")
    near = verb.add_mutually_exclusive_group()
    near.add_argument("--within", choices=LEVELS, help="its GPUs have to lie in one")
    near.add_argument("--prefer", choices=LEVELS, help="its GPUs had better lie in one")
    verb.add_argument("--cpus", type=int)
    verb.add_argument("--memory-gib", type=float)
    verb.add_argument("--disk-gib", type=int)
    verb.add_argument("--label", action="append", default=[], metavar="K=V", help="of the node")
    verb.add_argument("--env", action="append", default=[], metavar="K=V", help="K alone: yours")
    verb.add_argument("--workdir", help="on the node")
    verb.add_argument("--time-limit", help="such as 90s, 45m, 2d12h")
    verb.add_argument("--priority")
    verb.add_argument("--reservation", type=int, metavar="RES", help="run in that slot alone")
    _waits(verb)
    verb.add_argument("--launch", choices=["per_node", "per_gpu"])
    verb.add_argument("--device-ids", choices=["uuid", "index"])
    verb.add_argument("--grace", type=int, metavar="S", help="seconds from the signal to the end")
    verb.add_argument("--signal", help="that asks it to leave (TERM)")
    verb.add_argument("--signal-to", choices=["group", "rank0"], help="who gets it (group)")
    verb.add_argument("--saves-every", metavar="TIME", help="such as 10m; says what leaving costs")
    verb.add_argument(
        "--no-requeue",
        action="store_true",
        help="end it where it would be run again: made to leave, not started, crashed",
    )
    verb.add_argument("--key", default="", help="Idempotency-Key; by default a new one")
    verb.add_argument("--preview", action="store_true", help="say what it would meet; send nothing")
    verb.add_argument("--follow", action="store_true", help="read its log until it ends")
    verb.add_argument("--wait", action="store_true", help="until it ends; that is the exit code")
    _json(verb)


def _reserve(verb: argparse.ArgumentParser) -> None:
    verb.add_argument("--gpus", type=int, help="in all")
    verb.add_argument("--nodes", type=int, help="in equal parts on so many (1)")
    verb.add_argument("--model", dest="gpu_model", help="such as H100")
    verb.add_argument("--gpu-memory-gib", type=int, help="at least, per GPU")
    verb.add_argument("--on", action="append", metavar="NODE", help="this node; all its GPUs")
    verb.add_argument("--card", action="append", dest="cards", metavar="UUID", help="this one")
    verb.add_argument("--from", dest="start", metavar="TIME", help="such as 'tomorrow 9:00' (now)")
    verb.add_argument("--to", dest="until", metavar="TIME", help="the same")
    verb.add_argument("--for", dest="duration", metavar="LENGTH", help="such as 45m, 4h, 2d")
    verb.add_argument("--title", help="for people")
    verb.add_argument("--team", help="by default the only one you have")
    verb.add_argument("--maintenance", action="store_true", help="for operators: for no team")
    verb.add_argument("--next-free", action="store_true", help="only say when it would be free")
    verb.add_argument("--change", type=int, metavar="RES", help="make this one so instead")
    verb.add_argument("--end", type=int, dest="end_it", metavar="RES", help="end this one")
    verb.add_argument("--key", default="", help="Idempotency-Key; by default a new one")
    _json(verb)


def _waits(verb: argparse.ArgumentParser) -> None:
    verb.add_argument("--begin-at", metavar="TIME", help="such as 2026-12-24T18:00+01:00")
    verb.add_argument("--after", metavar="ID,ID", help="start it when these jobs have succeeded")
    verb.add_argument("--after-any", metavar="ID,ID", help="or however they have ended")


def _ls(verb: argparse.ArgumentParser) -> None:
    verb.add_argument("--all", action="store_true", help="ended ones too")
    verb.add_argument("--mine", action="store_true", help="your own only")
    verb.add_argument("--state", action="append", default=[], help="may be repeated")
    verb.add_argument("--team", default="")
    verb.add_argument("-n", "--limit", type=int, default=50, help="at most (50)")
    verb.add_argument("-w", "--watch", action="store_true", help="again every 2 s")
    _json(verb)


def _logs(verb: argparse.ArgumentParser) -> None:
    verb.add_argument("-f", "--follow", action="store_true", help="until the job has ended")
    verb.add_argument("--rank", type=int, default=0)
    verb.add_argument("--attempt", type=int)
    place = verb.add_mutually_exclusive_group()
    place.add_argument("--offset", type=int, default=0, help="begin at this byte")
    place.add_argument("--tail", type=int, metavar="BYTES", help="begin this far from the end")


def _tokens(verb: argparse.ArgumentParser) -> None:
    verb.add_argument("act", nargs="?", choices=["list", "create", "delete"], default="list")
    verb.add_argument("which", nargs="?", default="", help="name of the new one, prefix of the old")
    _json(verb)


def _one_job(
    verbs: "argparse._SubParsersAction[argparse.ArgumentParser]",
    name: str,
    told: str,
    *,
    json: bool = False,
) -> argparse.ArgumentParser:
    verb = verbs.add_parser(name, help=told)
    verb.add_argument("id", type=int)
    if json:
        _json(verb)
    return verb


def _json(verb: argparse.ArgumentParser) -> None:
    verb.add_argument("--json", action="store_true", help="print the API's JSON")
