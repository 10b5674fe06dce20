"""python3 -m telemetry: the same as ./hayloft, for a Python that has what it needs."""

import sys

from .cli import main

sys.exit(main(sys.argv[1:]))
