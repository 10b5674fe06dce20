"""The one kind of error that people see: a line that says what, why, and what to do.

The command line prints the message and exits with exit_code; anything else that escapes is a bug.
Exit codes are those of the command line: 1 an expectation failed, 2 usage, a bad file or a refused
boot, 3 boots failed, 4 the machine lacks something.
"""

import difflib
import errno

EXIT_EXPECTATION = 1
EXIT_USAGE = 2
EXIT_BOOTS = 3
EXIT_MACHINE = 4
EXIT_INTERRUPTED = 130


class HayloftError(Exception):
    """message is one line: what is wrong, why, what to do."""

    def __init__(self, message, exit_code=EXIT_USAGE):
        super().__init__(" ".join(str(message).split()))
        self.exit_code = exit_code


DISK_FULL = (errno.ENOSPC, errno.EDQUOT)


def cannot_write(path, error):
    """The HayloftError for an OSError met while writing to path. A full disk is the machine's lack."""
    what = f"{path}: cannot be written: {error.strerror or error}"
    if error.errno in DISK_FULL:
        return HayloftError(f"{what}; make room, then go on (./hayloft resume, or report, on the run)", EXIT_MACHINE)
    return HayloftError(f"{what}; choose a place that can be written to")


def nearest(word, legal):
    """The legal name most like word, or "" if none is at all like it."""
    found = difflib.get_close_matches(str(word), [str(name) for name in legal], n=1, cutoff=0.5)
    return found[0] if found else ""


def did_you_mean(word, legal):
    """' (nearest legal name: x)', or the whole list where nothing is near and the list is short."""
    near = nearest(word, legal)
    if near:
        return f" (nearest legal name: {near})"
    names = [str(name) for name in legal]
    return f" (legal: {', '.join(names)})" if 0 < len(names) <= 12 else ""
