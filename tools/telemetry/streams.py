"""The standard streams as a verb needs them: there, able to take any letter, and not the end of a run.

  secure()    closed streams lead nowhere, and letters that the encoding lacks become a question mark
  outlive()   standard output whose reader may leave: what is told after that goes nowhere, and the work goes on
"""

import os
import sys


def secure():
    for number in (0, 1, 2):
        try:
            os.fstat(number)
        except OSError:
            os.open(os.devnull, os.O_RDWR)  # the lowest free number: this one
    if sys.stdin is None:
        sys.stdin = open(0, encoding="utf-8", closefd=False)
    for name, number in (("stdout", 1), ("stderr", 2)):
        stream = getattr(sys, name)
        if stream is None:
            setattr(sys, name, open(number, "w", encoding="utf-8", errors="replace", closefd=False))
        elif hasattr(stream, "reconfigure"):
            stream.reconfigure(errors="replace")


class _Outliving:
    """A stream that survives its reader."""

    def __init__(self, stream):
        self._stream = stream
        self.gone = False

    def __getattr__(self, name):
        return getattr(self._stream, name)

    def write(self, text):
        return self._try(self._stream.write, text) or len(text)

    def flush(self):
        self._try(self._stream.flush)

    def _try(self, what, *words):
        if self.gone:
            return None
        try:
            return what(*words)
        except BrokenPipeError:
            self.gone = True
            # what is still in its buffer goes nowhere too, also when the interpreter ends
            with open(os.devnull, "w", encoding="ascii") as nowhere:
                os.dup2(nowhere.fileno(), self._stream.fileno())
            return None


def outlive():
    """A run goes on when the one who reads it has seen enough: `run | head -1` boots everything."""
    if not isinstance(sys.stdout, _Outliving):
        sys.stdout = _Outliving(sys.stdout)
