"""The verb `replay`: the live plots of an archived boot, by the same decoder and the same
panels."""

from __future__ import annotations

import contextlib
import sys
from pathlib import Path

from .errors import EXIT_MACHINE, HayloftError


def show_feed(feed, kind: str, port: int | None) -> int:
    """Shows a feed in this process until Ctrl-C, which is the ordinary end of looking at
    something."""
    try:
        if kind == "term":
            from .live import term

            term.show(feed, linger=0.0)
        else:
            from .live import web

            def say(address):
                print(f"live view: {address} (Ctrl-C ends it)", flush=True)

            web.serve(feed, port, say=say)
    except KeyboardInterrupt:
        print()
    if getattr(feed, "gone", ""):
        raise HayloftError(f"the line is gone: {feed.gone}", EXIT_MACHINE)
    return 0


def main(boot: str | Path, speed: float = 1.0, port: int | None = None, kind: str = "web") -> int:
    """boot: the folder of one boot. speed: times real time, 0: all at once."""
    from .live.feed import BootFeed

    folder = Path(boot)
    if not (folder / "telemetry.bin").is_file():
        raise HayloftError(f"{folder}: no telemetry.bin in it; name the folder of one boot, "
                           "such as RUN/boots/01-A")
    if not 0 <= speed <= 1e6:
        raise HayloftError(f"--speed {speed:g}: wants a number from 0 (all at once) to 1000000")
    for text in told(folder):
        print(f"hayloft: {text}", file=sys.stderr, flush=True)
    return show_feed(BootFeed(folder, speed), kind, port)


def told(folder: Path) -> list[str]:
    """What somebody who looks at these bytes should know first."""
    from . import bound, digest, store

    facts = digest.digest_boot(folder)
    out = []
    if not facts["records"]:
        out.append(f"{folder}: its telemetry.bin holds no record, so there is nothing to see")
    with contextlib.suppress(HayloftError):
        about = store.read_json(folder / "boot.json", "")
        run = {}
        with contextlib.suppress(HayloftError):
            run = store.read_json(folder.resolve().parents[1] / "run.json", "")
        wrong = bound.one(run, folder.resolve().name if run else str(about.get("id")), about, facts)
        if wrong:
            out.append(f"{folder}: not this boot's own: {wrong}")
    return out
