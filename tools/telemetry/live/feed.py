"""Where a view's records come from: a run folder that grows, an archived boot, a serial port.

A feed has a `state` (RunState), `poll()` that reads what is new, within a budget of bytes so that
the view stays prompt, and returns whether anything changed, and `ended`. Feeds only read; nothing
that they do reaches a boot.
"""

from __future__ import annotations

import json
import time
from pathlib import Path

from ..decode import Decoder, Record, decode_file
from ..follow import Follower
from .state import BootState, RunState, typed

BUDGET = 512 * 1024  # bytes a poll


def read_json(path: Path) -> dict:
    """A dictionary, {} if the file is not there; files are renamed into place, so it is never half
    there."""
    try:
        value = json.loads(path.read_text())
    except (OSError, ValueError):
        return {}
    return value if isinstance(value, dict) else {}


class RunFeed:
    """A run folder, from before its first boot to its end. Boots are read in the order in which
    they began. boot: the name of the only one to read."""

    def __init__(self, run_dir: str | Path, boot: str | None = None):
        self.run_dir = Path(run_dir)
        self.report = self.run_dir / "report.html"
        self.only = boot
        self.state = RunState()
        self.ended = False
        self._order: dict[str, dict] = {}
        self._stamp = None
        self._done: set[str] = set()
        self._open: tuple[str, Follower, BootState] | None = None

    def poll(self) -> bool:
        changed = self._read_run()
        budget = BUDGET
        while budget > 0:
            if self._open is None and not self._open_next():
                break
            changed = True if self._read_boot(budget) else changed
            if self._open is not None:
                break  # it still runs
            budget -= BUDGET // 4
        over = self.state.state in ("done", "interrupted")
        self.ended = over and self._open is None and not self._waiting()
        return changed

    def _read_run(self) -> bool:
        path = self.run_dir / "run.json"
        try:
            stat = path.stat()
        except OSError:
            return False
        stamp = (stat.st_mtime_ns, stat.st_ino)
        if stamp == self._stamp:
            return False
        self._stamp = stamp
        run = read_json(path)
        self.state.describe(run)
        entries = typed(run, "order", list)
        self._order = {str(e["id"]): e for e in entries if isinstance(e, dict) and "id" in e}
        return True

    def _waiting(self) -> list[Path]:
        try:
            found = [path for path in (self.run_dir / "boots").iterdir() if path.is_dir()]
        except OSError:
            return []
        new = [path for path in found if path.name not in self._done
               and self.only in (None, path.name)]
        return sorted(new, key=self._began)

    @staticmethod
    def _began(path: Path) -> tuple[str, str]:
        """Sorts boots by when they were started; one that does not say so yet is the newest."""
        return str(read_json(path / "boot.json").get("started") or "~"), path.name

    def _open_next(self) -> bool:
        waiting = self._waiting()
        if not waiting:
            return False
        path = waiting[0]
        about = read_json(path / "boot.json")
        planned = self._order.get(path.name.split(".")[0], {})
        arm = str(about.get("arm") or planned.get("arm") or "")
        pair = typed(about, "pair", int) or typed(planned, "pair", int)
        point = typed(about, "point", dict) or typed(planned, "point", dict)
        boot = BootState(path.name, arm, pair, point)
        if planned:
            boot.place = list(self._order).index(str(planned["id"])) + 1
        shared = "telemetry.port=com1" in str(about.get("args") or "").split()
        capture = "console.log" if shared else "telemetry.bin"
        self._open = path.name, Follower(path / capture, shared), boot
        self.state.begin(boot)
        return True

    def _read_boot(self, budget: int) -> bool:
        name, follower, boot = self._open
        about = read_json(self.run_dir / "boots" / name / "boot.json")
        over = bool(about.get("ended")) or self.state.state in ("done", "interrupted")
        over = over or len(self._waiting()) > 1  # the tool has gone on to the next
        items = follower.poll(budget)
        if over and not follower.behind:
            items += follower.finish()
            self._done.add(name)
            self._open = None
        for item in items:
            boot.take(item)
        if items:
            self.state.update(boot)
        if self._open is None:
            outcome = about.get("outcome") or boot.outcome or "incomplete"
            self.state.boots[name].outcome = str(outcome)
        return bool(items) or self._open is None


class BootFeed:
    """An archived boot, played at `speed` times the pace of the kernel's clock; 0: all at once."""

    def __init__(self, boot_dir: str | Path, speed: float = 1.0):
        boot_dir = Path(boot_dir)
        about = read_json(boot_dir / "boot.json")
        run = read_json(boot_dir.parent.parent / "run.json")
        shared = "telemetry.port=com1" in str(about.get("args") or "").split()
        self.state = RunState()
        self.state.describe(run)
        of_run = f": {self.state.title}" if run else ""
        self.state.title = f"replay of {boot_dir.resolve().name}{of_run}"
        self.state.state, self.state.planned, self.state.alone = "running", 0, True
        self.boot = BootState(boot_dir.resolve().name, str(about.get("arm") or "A"), 1)
        self.state.begin(self.boot)
        self.speed = speed
        self.ended = False
        self._items = decode_file(boot_dir / "telemetry.bin", shared)
        self._next = None
        self._began: tuple[float, int] | None = None

    def _due(self, item) -> bool:
        """Whether a record's time has come. The first record sets the clock; what has no later time
        is due."""
        if not self.speed or not isinstance(item, Record) or not self.boot.hz:
            return True
        if self._began is None:
            self._began = time.monotonic(), item.time
        began, ticks = self._began
        return (item.time - ticks) / self.boot.hz <= (time.monotonic() - began) * self.speed

    def poll(self) -> bool:
        changed = False
        for _ in range(20_000):
            item = self._next if self._next is not None else next(self._items, None)
            if item is None:
                self.ended = True
                break
            if not self._due(item):
                self._next = item
                break
            self._next = None
            self.boot.take(item)
            changed = True
        if changed:
            self.state.update(self.boot)
        return changed


class SerialFeed:
    """A real machine on a serial line, joined whenever the tool is started; each of its boots is
    one here."""

    def __init__(self, port, name: str):
        self.port = port  # a pyserial port with a timeout of 0, or anything with read()
        self.state = RunState(f"the machine at {name}")
        self.state.alone = True
        self.ended = False
        self.gone = ""  # why nothing more will come
        self._decoder = Decoder(shared_line=True, from_start=False)
        self._boot = BootState("boot 1", "A", 1)
        self.state.begin(self._boot)

    def poll(self) -> bool:
        if self.ended:
            return False
        try:
            data = self.port.read(BUDGET)
        except (OSError, ValueError, TypeError) as error:  # pyserial's own are OSErrors; unplugged, it also gives others
            self.ended, self.gone = True, str(error)
        items = self._decoder.finish() if self.ended else self._decoder.feed(data)
        for item in items:
            number = item.boot + 1 if isinstance(item, Record) else None
            if number is not None and f"boot {number}" != self._boot.id:
                self.state.boots[self._boot.id].outcome = self._boot.outcome or "incomplete"
                self._boot = BootState(f"boot {number}", "A", number)
                self.state.begin(self._boot)
            self._boot.take(item)
        if items:
            self.state.update(self._boot)
        return bool(items)
