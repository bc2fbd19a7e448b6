"""The ``gangway`` command: options in, exit code out; every failure is a sentence on stderr.

Exit codes: 0 done, 1 refused, 2 wrong usage, 3 the portal does not answer, 130 interrupted;
``wait`` and ``submit --wait`` add how the job ended (``following.EXIT_CODES``).
"""

import os
import sys
from collections.abc import Sequence

from . import show
from .commands import VERBS
from .errors import ClientError, NoPortal, Refused
from .options import parse


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command. Returns the exit code (argparse exits by itself on wrong options)."""
    options = parse(sys.argv[1:] if argv is None else argv)
    if sys.stdout is None:  # closed by who started us: nobody reads
        sys.stdout = os.fdopen(os.open(os.devnull, os.O_WRONLY), "w")
    try:
        return VERBS[options.verb](options)
    except ClientError as failed:
        _explain(failed)
        return failed.exit_code
    except KeyboardInterrupt:
        return 130
    except BrokenPipeError:
        # The reader went away (head, less). Python flushes stdout once more when it ends.
        _drop_output()
        return 0
    except OSError as failed:
        _drop_output()
        _explain(ClientError(f"What came could not be written: {failed}.", next_step=""))
        return 1
    except KeyError as missing:
        _explain(NoPortal(f"The answer has no {missing}."))
        return 1


def _drop_output() -> None:
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def _explain(failed: ClientError) -> None:
    fields = failed.fields if isinstance(failed, Refused) else {}
    show.tell(f"gangway: {show.clean(failed.cause)}")
    for name, sentence in fields.items():
        if sentence not in failed.cause:
            show.tell(f"  {show.clean(name)}: {show.clean(sentence)}")
    if failed.next_step:
        show.tell(f"  {show.clean(failed.next_step)}")


if __name__ == "__main__":
    sys.exit(main())
