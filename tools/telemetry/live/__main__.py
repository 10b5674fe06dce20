"""python3 -m telemetry.live web|term RUN_DIR: the view as a process of its own.

It reads the run's folder and nothing else, at the lowest priority, and ends soon after the run
does, or when its parent is gone. The first line of `web` on standard output is the page's address.
Until it is there the page has the priority of its parent, which waits for it and measures nothing
yet: at the lowest, on a busy host, Matplotlib would not be imported in a minute.
"""

import argparse
import ctypes
import os
import signal
import sys

from ..errors import HayloftError
from . import feed, term

LINGER = 3.0  # seconds after the run's end: time for browsers to fetch the last picture


def end_with(parent: int | None):
    """The parent-death signal; returns a function that says whether the parent lives."""
    if parent is None:
        return lambda: True
    ctypes.CDLL(None, use_errno=True).prctl(1, signal.SIGTERM, 0, 0, 0)  # PR_SET_PDEATHSIG
    return lambda: os.getppid() == parent


def step_aside(address: str) -> None:
    """The page is there: from now on, what it takes is what nobody else wants."""
    os.nice(19)
    print(address, flush=True)


def main() -> int:
    parser = argparse.ArgumentParser(prog="python3 -m telemetry.live", description=__doc__)
    parser.add_argument("kind", choices=("web", "term"))
    parser.add_argument("run_dir")
    parser.add_argument("--port", type=int)
    parser.add_argument("--boot", help="show this boot of the run alone")
    parser.add_argument("--parent", type=int,
                        help="end when this process, which must be the parent, does")
    parser.add_argument("--linger", type=float, default=LINGER,
                        help="seconds to stay after the run's end")
    options = parser.parse_args()
    asked: list[int] = []  # to end: the page still sends its last picture
    signal.signal(signal.SIGTERM, lambda number, _: asked.append(number))
    parent_lives = end_with(options.parent)

    def alive() -> bool:
        return not asked and parent_lives()

    source = feed.RunFeed(options.run_dir, options.boot)
    try:
        if options.kind == "term":
            os.nice(19)
            term.show(source, linger=options.linger, alive=alive)
        else:
            from . import web  # imports Matplotlib, which a terminal can do without

            web.serve(source, options.port, options.linger, alive, say=step_aside)
    except HayloftError as error:
        print(error, file=sys.stderr)
        return error.exit_code
    except (KeyboardInterrupt, BrokenPipeError):
        return 0
    return 0


if __name__ == "__main__":
    sys.exit(main())
