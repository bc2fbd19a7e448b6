"""``python -m portal.supervisor``: run the portal in this folder until Ctrl-C."""

import os
import sys

from .start import up

if __name__ == "__main__":
    sys.exit(up(os.environ))
