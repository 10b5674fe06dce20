"""Reads a capture while it grows: the file is the pipe, so that one complete copy exists whoever
reads it.

A Follower asks the file for what is new and hands it to a Decoder. It never blocks, holds at most
one read of bytes, and takes a file that does not exist yet for an empty one. A file that shrank is
another boot's (or was damaged), and is read again from its beginning by a new decoder.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from pathlib import Path

from .decode import Decoder, Fault, Record, Text

READ = 256 * 1024


class Follower:
    """One growing file. `poll()` returns what became certain since the last call."""

    def __init__(self, path: str | Path, shared_line: bool = False):
        self.path = Path(path)
        self.shared_line = shared_line
        self.finished = False
        self._at = 0
        self._decoder = Decoder(shared_line)

    def poll(self, most: int = READ) -> list[Record | Fault | Text]:
        """At most `most` bytes' worth; `behind` tells whether there was more."""
        try:
            with open(self.path, "rb") as source:
                if source.seek(0, 2) < self._at:
                    self._at, self._decoder = 0, Decoder(self.shared_line)
                source.seek(self._at)
                data = source.read(most)
        except FileNotFoundError:
            return []
        self._at += len(data)
        return self._decoder.feed(data) if data else []

    @property
    def behind(self) -> bool:
        try:
            return self.path.stat().st_size != self._at
        except FileNotFoundError:
            return False

    def finish(self) -> list[Record | Fault | Text]:
        """The writer is gone and everything was read: what the decoder still held back."""
        self.finished = True
        return self._decoder.finish()


def follow(
    path: str | Path, ended: Callable[[], bool], shared_line: bool = False, pause: float = 0.05
) -> Iterator[Record | Fault | Text]:
    """Everything in a growing file until `ended()` says that nobody writes any more and all was
    read."""
    follower = Follower(path, shared_line)
    while True:
        # asked before reading: what was written before it became true is then read too
        last = ended()
        items = follower.poll()
        yield from items
        if last and not follower.behind:
            yield from follower.finish()
            return
        if not items and not follower.behind:
            time.sleep(pause)
