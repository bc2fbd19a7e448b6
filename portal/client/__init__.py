"""The portal from elsewhere: the ``gangway`` command, and the same as a library.

Standard library only, and nothing of the server: it can be copied to a machine that has neither.

    from portal.client import Client
    job = Client().submit({"team": "vision", "command": "nvidia-smi", "gpus": 1})

``connection`` speaks HTTP and tries again, ``client`` has a method for each route, ``following``
reads logs as they grow, ``config`` keeps the address and the token; ``main``, ``options``,
``commands`` and ``show`` are the command. To add a verb: its options, its function, its line in
docs/cli.md.
"""

from .client import Client, LogPiece
from .errors import ClientError, Refused, Unreachable

__all__ = ["Client", "ClientError", "LogPiece", "Refused", "Unreachable"]
