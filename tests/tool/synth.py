"""Whole, legal captures without a kernel: what docs/PROTOCOL.md lets a kernel send, with chosen
effects.

For tests of everything behind the decoder. A boot is described by a Plan (which tests, how many ns
an operation, how often the front end hits, how contended the locks are); `capture(plan)` gives its
bytes, `steps(plan)` the same bytes cut where time passes, for a writer that plays a machine.
`write_run` lays out a run folder as the tool does.

What it deliberately is not: a second model of the allocator. The counters move in proportion to the
operations, so that sums and shares are known beforehand; they do not obey every law of the real
kernel (the balance law, say).

    synth.py OUT.bin [--arm A|B] [--cpus N] [--rounds N] [--seed N]      one capture
    synth.py --run DIR [--pace SECONDS]                                  a run folder, boot by boot
"""

import argparse
import json
import math
import random
import time
import zlib
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from datetime import datetime, timezone
from pathlib import Path

import cbor2

from telemetry import ROOT
from telemetry.defs import parse_counters, parse_knobs, parse_lock_classes

TYPES = {"hello": 0, "schema": 1, "object": 2, "sample": 3, "bench": 4, "check": 5, "event": 6,
         "lost": 7,
         "panic": 8, "bye": 9, "latency": 10, "matrix": 11}
SCOPES = {"cpu": 0, "cache": 1, "lock": 2, "node": 3, "global": 4}
CLASSES = (16, 32, 64, 96, 128, 192, 256, 384, 512, 768, 1024, 1536, 2048, 3072, 4096, 6144, 8192)
BOOT = 255
BARN_LIMIT = 10
ARGS_FIRST = 1500  # bytes of the arguments in one part of hello
WHOLE_EVERY = 4  # rounds, of which the first begins with a complete sample
HZ = 2_000_000_000
ARM_A = "front=none owner=lock stats.slab=global"
ARM_B = "front=bounded owner=tag stats.slab=percpu"


@dataclass(frozen=True)
class Test:
    """One test: ns an operation, and what one operation does."""

    name: str
    ns: float
    cpus: int = 1
    fast: float = 0.0  # share of operations that the front end serves
    contended: float = 0.0  # share of cache-lock acquisitions found taken
    skip: str = ""
    short_in: int | None = None  # the round in which its memory runs out
    figures: tuple[tuple[str, int], ...] = ()  # told of each round besides its time


@dataclass(frozen=True)
class Plan:
    tests: tuple[Test, ...]
    args: str = ""
    cpus: int = 2
    rounds: int = 3
    round_ms: float = 200
    noise: float = 0.02  # relative, of each round
    seed: int = 1
    outcome: str = "ok"
    refused: tuple[tuple[str, str, str], ...] = ()
    panic_after: int | None = None  # rounds until the machine panics
    # numbers, in CPU 0's stream, of samples that a full ring drops
    drop: frozenset[int] = frozenset()
    roundtrips: int = 4000
    platform: str = "x86_64"
    objects_a_slab: int = 64
    start: int = 12_000_000_000
    observed: bool = False  # latency=on matrix=on
    # what hello says that the kernel left out, and what bye says besides; None: an older kernel, which tells neither
    left_out: tuple[dict, ...] | None = None
    left_out_later: tuple[dict, ...] = ()
    longer: int = 0  # cycles by which the longest timed call is longer in each round
    # caches have barns, and this share of what the front end is brought comes from there
    stored: float | None = None


def plan_for(arm: str, **changes) -> Plan:
    """The shape of the first experiment: A fights for the cache lock, B does not."""
    cpus = changes.get("cpus", 2)
    if arm == "A":
        tests = (Test("malloc/64/solo", 115), Test("malloc/64/all-cpus", 900, cpus, 0, 0.6),
                 Test("malloc/4096/solo", 171), Test("malloc/4096/all-cpus", 1200, cpus, 0, 0.7))
        args = ARM_A
    else:
        tests = (Test("malloc/64/solo", 99, 1, 0.97),
                 Test("malloc/64/all-cpus", 107, cpus, 0.97, 0.01),
                 Test("malloc/4096/solo", 159, 1, 0.75),
                 Test("malloc/4096/all-cpus", 184, cpus, 0.75, 0.02))
        args = ARM_B
    return replace(Plan(tests, args), **changes)


def cobs(data: bytes) -> bytes:
    out = bytearray()
    pieces = data.split(b"\0")
    for number, piece in enumerate(pieces):
        while len(piece) >= 254:
            out += b"\xff" + piece[:254]
            piece = piece[254:]
            if not piece and number == len(pieces) - 1:
                return bytes(out)
        out.append(len(piece) + 1)
        out += piece
    return bytes(out)


def frame(payload: bytes) -> bytes:
    return b"\0" + cobs(payload + zlib.crc32(payload).to_bytes(4, "little")) + b"\0"


@dataclass
class Writer:
    """Numbers the records of each stream and cuts long ones into parts."""

    now: int
    seq: dict[int, int] = field(default_factory=dict)
    lost: dict[int, int] = field(default_factory=dict)
    bytes: int = 0
    records: int = 0
    made: list[int] = field(default_factory=lambda: [0] * len(TYPES))  # of stream 255
    begun: int = 0  # rounds

    def offer(self, kind: str, stream: int, body, part=0, parts=1, drop=False) -> bytes:
        number = self.seq.get(stream, 0)
        self.seq[stream] = number + 1
        if stream == BOOT and kind in ("bench", "bye"):
            body = {**body, "made": list(self.made)}
        if stream == BOOT:
            self.made[TYPES[kind]] += 1
        if drop:
            self.lost[stream] = self.lost.get(stream, 0) + 1
            return b""
        payload = cbor2.dumps([TYPES[kind], stream, number, int(self.now), part, parts, body])
        assert len(payload) <= 4000, (kind, len(payload))
        done = frame(payload)
        self.bytes += len(done)
        self.records += 1
        return done

    def rows(self, stream: int, rows: list, limit=60) -> bytes:
        """A sample, in as many parts as it takes."""
        cuts = [rows[i : i + limit] for i in range(0, len(rows), limit)] or [[]]
        return b"".join(self.offer("sample", stream, cut, n, len(cuts)) for n,
                        cut in enumerate(cuts))


class Machine:
    """The counters of one boot, and who was told of which value."""

    def __init__(self, plan: Plan):
        self.plan = plan
        self.random = random.Random(f"{plan.seed}/{plan.args}")
        self.counters = parse_counters((ROOT / "base/counters.def").read_text())
        self.ids = {(c.scope, c.name): i for i, c in enumerate(self.counters)}
        self.knobs = parse_knobs((ROOT / "base/knobs.def").read_text())
        classes = [name for name,
                   _ in parse_lock_classes((ROOT / "base/lockclass.def").read_text())]
        self.caches = [f"kmalloc-{size}" for size in CLASSES]
        owners = {"cache": self.caches, "page": ["node0"]}
        self.locks = [(cls, owner) for cls in classes for owner in owners.get(cls, [cls])]
        self.values: dict[tuple, int] = {}
        self.told: dict[int, dict[tuple, int]] = {}

    def add(self, scope: str, instance: int, cpu: int, name: str, amount: float) -> None:
        key = (SCOPES[scope], instance, cpu, self.ids[scope, name])
        self.values[key] = self.values.get(key, 0) + int(amount)

    def changed(self, reader: int, wanted) -> list:
        """Rows of what `reader` has not been told yet, of the scopes and CPUs that `wanted` lets
        through."""
        told = self.told.setdefault(reader, {})
        rows: dict[tuple, list] = {}
        for key, value in sorted(self.values.items()):
            if told.get(key, 0) != value and wanted(key):
                rows.setdefault(key[:3], []).extend((key[3], value))
                told[key] = value
        return [[*head, *pairs] for head, pairs in rows.items()]

    def work(self, test: Test, cpu: int, operations: int) -> None:
        """What `operations` allocations and frees by this CPU do to the counters."""
        size = int(test.name.split("/")[1])
        index = min((i for i, limit in enumerate(CLASSES) if limit >= size), default=0)
        lock = self.locks.index(("cache", self.caches[index]))
        page = self.locks.index(("page", "node0"))
        fast = int(operations * test.fast)
        slow = operations - fast
        for what in ("alloc", "free"):
            self.add("cache", index, cpu, f"{what}_fast", fast)
            self.add("cache", index, cpu, f"{what}_slow", slow)
        contended = int(2 * slow * test.contended)
        self.add("lock", lock, cpu, "acquisitions", 2 * slow)
        self.add("lock", lock, cpu, "contended", contended)
        self.add("lock", lock, cpu, "wait_cycles", contended * 400)
        slabs = slow // (100 * self.plan.objects_a_slab)
        self.add("cache", index, cpu, "slab_alloc", slabs)
        self.add("cache", index, cpu, "slab_free_empty", slabs)
        for name in ("page_alloc", "page_free"):
            self.add("node", 0, cpu, name, slabs)
        self.add("lock", page, cpu, "acquisitions", 2 * slabs)
        if self.plan.stored is not None:
            stored = int(slow * self.plan.stored)
            self.add("cache", index, cpu, "prefill_from_barn", stored)
            self.add("cache", index, cpu, "refill_objects", slow - stored)
            full = BARN_LIMIT if not stored else self.random.randint(1, BARN_LIMIT - 1)
            for name, level in (("full", full), ("empty", BARN_LIMIT - full), ("partial", 1)):
                self.values[SCOPES["cache"], index, 0, self.ids["cache", f"barn_{name}"]] = level
        if self.plan.observed:  # 4096 bytes for each slab's worth that is kept
            kept = (SCOPES["cache"], index, 0, self.ids["cache", "front_bytes"])
            self.values[kept] = 4096 * (cpu + 1)
        self.add("cpu", cpu, cpu, "ticks", 10)


class _Boot:
    """Plays one boot: yields (seconds that pass before, bytes)."""

    def __init__(self, plan: Plan):
        self.plan = plan
        self.machine = Machine(plan)
        self.out = Writer(plan.start)
        self.samples = 0

    def hello(self) -> bytes:
        plan = self.plan
        knobs = {knob.name: knob.default for knob in self.machine.knobs}
        refused = {argument for argument, _, _ in plan.refused}
        knobs.update(word.split("=", 1) for word in plan.args.split() if word not in refused)
        body = {
            "protocol": 1, "kernel": "synthetic", "git": "0" * 40, "dirty": False,
            "compiler": "none", "flags": "",
            "variant": "release", "schema": zlib.crc32((ROOT / "base/counters.def").read_bytes()),
            "platform": plan.platform, "hypervisor": "TCGTCGTCGTCG",
            "cpus": [[cpu, cpu * 2, 0, cpu * 7] for cpu in range(plan.cpus)],
            "cpus_found": plan.cpus,
            "memory": 2**31, "tsc_hz": HZ, "tsc_invariant": True, "flags_fault": True,
            "tick_hz": 100,
            "args": plan.args, "knobs": knobs, "refused": [list(entry) for entry in plan.refused],
        }
        parts = [body]
        if plan.left_out is not None:
            body.update(args=plan.args[:ARGS_FIRST], args_bytes=len(plan.args.encode()))
            parts.append({"left_out": [dict(entry) for entry in plan.left_out]})
            parts += [{"args": plan.args[at : at + ARGS_FIRST]} for at in range(ARGS_FIRST, len(plan.args), ARGS_FIRST)]
        return b"".join(self.out.offer("hello", BOOT, part, number, len(parts)) for number, part in enumerate(parts))

    def names(self) -> bytes:
        offer, machine, out = self.out.offer, self.machine, b""
        for number, counter in enumerate(machine.counters):
            body = {"id": number, "name": counter.name, "unit": counter.unit, "kind": counter.kind,
                    "scope": counter.scope, "panel": counter.panel, "doc": counter.doc}
            if counter.formula:
                body["formula"] = counter.formula
            out += offer("schema", BOOT, body)
        out += offer("object", BOOT, {"kind": "node", "id": 0, "name": "node0"})
        for number, (name, size) in enumerate(zip(machine.caches, CLASSES)):
            limits = {"limits": {"barn_full": BARN_LIMIT, "barn_empty": BARN_LIMIT,
                                 "barn_partial": 1}} if self.plan.stored is not None else {}
            out += offer("object", BOOT, {"kind": "cache", "id": number, "name": name, "size": size,
                                          "capacity": 32, "slab": 4096, "state": 16,
                                          "objects": max(1, 4096 // (size + 16)), **limits})
        for number, (cls, owner) in enumerate(machine.locks):
            out += offer("object", BOOT,
                         {"kind": "lock", "id": number, "name": owner, "class": cls})
        for number, test in enumerate(self.plan.tests):
            body = self.about(number, test)
            if test.skip:
                body["skip"] = test.skip
            out += offer("object", BOOT, body)
        return out

    def about(self, number: int, test: Test) -> dict:
        return {"kind": "test", "id": number, "name": test.name, "unit": "ns/op",
                "shape": "all-cpus" if test.name.endswith("all-cpus") else "solo", "cpus": test.cpus}

    def out_of_memory(self, number: int, test: Test, round_: int) -> bytes:
        """In the timed section: the round has its two marks and no result."""
        mark = {"test": number, "round": round_}
        return (self.full() + self.out.offer("bench", BOOT, {"phase": "begin", **mark}) + self.full()
                + self.out.offer("bench", BOOT, {"phase": "end", **mark})
                + self.out.offer("object", BOOT, {
                    **self.about(number, test), "skip": f"short of memory in round {round_}",
                    "shortage": {"round": round_, "asked": 65536, "held": 40 << 20, "had": 41 << 20}}))

    def check(self, name: str, when: str, values: dict, ok=True) -> bytes:
        body = {"name": name, "when": when, "ok": ok, "detail": "", "values": values}
        return self.out.offer("check", BOOT, body)

    def sample(self) -> bytes:
        """Each CPU's tick: its own row; on CPU 0 also everything that is not a CPU's."""
        out = b""
        for cpu in range(self.plan.cpus):
            rows = self.machine.changed(
                cpu, lambda key: key[1] == cpu if key[0] == SCOPES["cpu"] else cpu == 0)
            if not rows:
                continue
            if cpu == 0:
                self.samples += 1
                if self.samples in self.plan.drop:
                    self.out.offer("sample", 0, None, drop=True)
                    body = {"stream": 0, "count": 1, "from": int(self.out.now),
                            "to": int(self.out.now)}
                    out += self.out.offer("lost", 0, body)
                    continue
            out += self.out.rows(cpu, rows)
        return out

    def full(self) -> bytes:
        return self.out.rows(BOOT, self.machine.changed(BOOT, lambda key: True))

    def begin(self, number: int, round_: int) -> bytes:
        """A full sample, complete now and then, and the mark."""
        told, whole = self.machine.told, {}
        if self.out.begun % WHOLE_EVERY == 0:
            told.pop(BOOT, None)
            whole = {"whole": None}
        self.out.begun += 1
        before = self.out.made[TYPES["sample"]]
        out = self.full()
        if whole:
            whole["whole"] = self.out.made[TYPES["sample"]] - before
        return out + self.out.offer("bench", BOOT, {"phase": "begin", "test": number, "round": round_, **whole})

    def round(self, number: int, test: Test, round_: int) -> Iterator[tuple[float, bytes]]:
        plan = self.plan
        offer = self.out.offer
        yield 0, self.begin(number, round_)
        ns = test.ns * math.exp(self.machine.random.gauss(0, plan.noise))
        total = int(plan.round_ms * 1e6 / ns)
        done, ticks = 0, max(1, round(plan.round_ms / 250))
        for tick in range(1, ticks + 1):
            part = total * tick // ticks - done
            done += part
            for cpu in range(test.cpus):
                self.machine.work(test, cpu, part)
            seconds = plan.round_ms / 1e3 / ticks
            self.out.now += seconds * HZ
            yield seconds, self.sample()
        cycles = int(plan.round_ms * 1e-3 * HZ)
        operations = total * test.cpus
        result = {
            "phase": "result", "test": number, "round": round_, "operations": operations,
            "cycles": cycles * test.cpus, "wall": cycles + 100,
            "cpus": [[cpu, cpu, total, cycles, 50 * cpu] for cpu in range(test.cpus)],
            "counted": [operations] * 2, "claimed": [operations] * 2, "n": 0,
            "yardstick": [[cpu, 100_000, 100_000] for cpu in range(test.cpus)],
        }
        yield 0, (self.full() +
                  offer("bench", BOOT, {"phase": "end", "test": number, "round": round_})
                  + offer("bench", BOOT, result))
        if test.figures:
            told = {name: value + round_ for name, value in test.figures}  # the middle round's is one more
            yield 0, offer("event", 0, {"kind": "figure", "text": test.name, "values": told})
        if plan.observed:
            yield 0, self.observed(number, test, round_, total)
        self.out.now += 0.05 * HZ
        yield 0.05, self.sample()

    def observed(self, number: int, test: Test, round_: int, total: int) -> bytes:
        """One call in ten timed: of a hundred 90 in bucket 24, nine in bucket 32, half of one in bucket 40. Each CPU frees
        three quarters of what it allocated, the next one the rest."""
        head = {"test": number, "round": round_}
        out = b""
        for call in ("alloc", "free"):
            buckets = [[24, total // 10 * 90 // 100], [32, total // 10 * 9 // 100],
                       [40, total // 10 // 200 + 1]]
            out += self.out.offer("latency", BOOT, {**head, "level": "front", "call": call, "every": 10,
                                                    "about": "a call", "clock": 40,
                                                    "max": 5000 + self.plan.longer * round_,
                                                    "buckets": buckets})
        for cpu in range(test.cpus):
            pairs = {cpu: total - total // 4}
            pairs[(cpu - 1) % test.cpus] = pairs.get((cpu - 1) % test.cpus, 0) + total // 4
            out += self.out.offer("matrix", BOOT, {**head, "cpu": cpu,
                                                   "from": [[a, n] for a, n in sorted(pairs.items())]})
        return out

    def panic(self) -> bytes:
        body = {"kind": 4, "name": "CHECK", "text": "planted", "file": "mm/slab.c", "line": 77,
                "values": [1, 2],
                "cpu": 0, "registers": {"rip": 0xFFFFFFFF80001234}, "others": [],
                "backtrace": [[0xFFFFFFFF80001234, "slab_alloc", 20],
                              [0xFFFFFFFF80004321, "main", 1]]}
        return b"\0" + self.out.offer("panic", 0, body)

    def bye(self, reason="") -> bytes:
        offered = {**self.out.seq, BOOT: self.out.seq[BOOT] + 1}
        totals = [[stream, count, self.out.lost.get(stream, 0)] for stream,
                  count in sorted(offered.items())]
        telemetry = {"cycles": self.out.bytes * 40, "bytes": self.out.bytes,
                     "records": self.out.records}
        body = {"outcome": self.plan.outcome, "reason": reason, "totals": totals,
                "telemetry": telemetry}
        if self.plan.left_out is not None:
            body["left_out"] = [dict(entry) for entry in (*self.plan.left_out, *self.plan.left_out_later)]
        return self.out.offer("bye", BOOT, body)

    def play(self) -> Iterator[tuple[float, bytes]]:
        plan = self.plan
        yield 0, self.hello()
        if plan.refused:
            yield 0, self.bye("; ".join(f"{argument}: {why}" for argument, why, _ in plan.refused))
            return
        yield 0, self.names()
        self.out.now += 0.1 * HZ
        balance = dict.fromkeys(("capacity", "slab_free", "front", "in_use", "allocs", "frees"), 0)
        yield 0, self.parallel("before")
        yield 0.1, (self.check("selfcheck", "before", {}) + self.check("balance", "before", balance)
                    +
                    self.out.offer("event", BOOT, {"kind": "phase", "text": "tests", "values": {}}))
        rounds = 0
        for number, test in enumerate(plan.tests):
            if test.skip:
                continue
            for round_ in range(plan.rounds):
                if plan.panic_after is not None and rounds >= plan.panic_after:
                    yield 0, self.panic()
                    return
                if round_ == test.short_in:
                    yield 0, self.out_of_memory(number, test, round_)
                    break
                yield from self.round(number, test, round_)
                yield 0, self.parallel(test.name)
                rounds += 1
        self.out.now += 0.1 * HZ
        yield 0.1, (self.check("selfcheck", "after", {}) + self.check("balance", "after", balance)
                    + self.parallel("after"))
        yield 0, self.bye()

    def parallel(self, when: str) -> bytes:
        cpus = self.plan.cpus
        return self.check("parallel", when, {"roundtrips": self.plan.roundtrips, "ms": 10}
                          if cpus > 1 else {"cpus": 1})


def steps(plan: Plan) -> Iterator[tuple[float, bytes]]:
    return _Boot(plan).play()


def capture(plan: Plan) -> bytes:
    return b"".join(data for _, data in steps(plan))


def noisy(plan: Plan, base: int, index: int) -> Plan:
    """The same plan for another boot: its own seed, and a small shift of the whole boot."""
    shift = math.exp(random.Random(f"{base}/{index}").gauss(0, plan.noise))
    tests = tuple(replace(test, ns=test.ns * shift) for test in plan.tests)
    return replace(plan, tests=tests, seed=base + index, start=plan.start + index * 1_000_003)


def write_json(path: Path, value: dict) -> None:
    aside = path.with_suffix(".aside")
    aside.write_text(json.dumps(value, indent=1, ensure_ascii=False) + "\n")
    aside.rename(path)


def _now() -> str:
    return datetime.now(timezone.utc).isoformat(timespec="milliseconds")


def begin_run(run: Path, plans: dict[str, Plan], pairs: int, seed=1) -> dict:
    """The run folder before its first boot."""
    (run / "boots").mkdir(parents=True, exist_ok=True)
    names = sorted(plans)
    order = []
    for pair in range(1, pairs + 1):
        for slot, arm in enumerate(names if pair % 2 else names[::-1]):
            order.append({"id": f"{pair:02}-{arm}", "arm": arm, "point": {}, "pair": pair,
                          "slot": slot})
    cpus = plans[names[0]].cpus
    arms = "\n".join(f'{arm} = "{plan.args}"' for arm, plan in plans.items())
    toml = (f'title = "A synthetic run"\nboot = "kbench=3"\npairs = {pairs}\n'
            f'minimum_effect = 0.20\n\n'
            f'[arms]\n{arms}\n')
    (run / "experiment.toml").write_text(toml)
    description = {
        "schema": 1, "experiment": "synthetic", "title": "A synthetic run", "created": _now(),
        "git": {"id": "0" * 40, "dirty": False}, "tool": "0", "qemu": "none",
        "host": {"cpu": "none", "cores": 2, "load": [0, 0, 0]},
        "machine": {"kind": "tcg", "cpus": cpus, "memory": "2G", "timeout": "60s",
                    "over_committed": False},
        "arms": {arm: plan.args for arm, plan in plans.items()}, "reference": names[0],
        "points": [{}],
        "pairs": pairs, "order": order, "minimum_effect": 0.2, "published": None, "images": {},
        "seed": seed,
        "skipped": [], "warnings": [], "state": "running",
    }
    write_json(run / "run.json", description)
    return description


def run_boot(run: Path, entry: dict, plan: Plan, pace: float = 0, exit_status=33,
             outcome="ok") -> None:
    """One boot's folder, written as its machine would: `pace` times slower than at once (1: real
    time)."""
    boot = run / "boots" / entry["id"]
    boot.mkdir(parents=True)
    knobs = {}
    about = {**entry, "attempt": 1, "args": plan.args,
             "machine": {"kind": "tcg", "cpus": plan.cpus, "memory": "2G"}, "knobs": knobs,
             "started": _now(),
             "ended": None, "seconds": None, "exit_status": None, "outcome": None, "reason": "",
             "lost": 0,
             "damaged": 0, "host": {"load": [0, 0, 0], "steal": 0}, "vcpu_seconds": [],
             "image": "0" * 64,
             "machine_kind": "tcg"}
    write_json(boot / "boot.json", about)
    (boot / "console.log").write_bytes(b"synthetic\n")
    started = time.monotonic()
    with open(boot / "telemetry.bin", "wb", buffering=0) as out:
        for seconds, data in steps(plan):
            if pace:
                time.sleep(seconds * pace)
            out.write(data)
    about.update(ended=_now(), seconds=time.monotonic() - started, exit_status=exit_status,
                 outcome=outcome)
    write_json(boot / "boot.json", about)


def write_run(run: Path, plans: dict[str, Plan] | None = None, pairs=6, pace: float = 0,
              seed=1) -> None:
    plans = plans or {"A": plan_for("A"), "B": plan_for("B")}
    description = begin_run(run, plans, pairs, seed)
    for index, entry in enumerate(description["order"]):
        run_boot(run, entry, noisy(plans[entry["arm"]], seed, index), pace)
    description["state"] = "done"
    write_json(run / "run.json", description)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("out", nargs="?", type=Path)
    parser.add_argument("--run", type=Path)
    parser.add_argument("--arm", default="A", choices="AB")
    parser.add_argument("--cpus", type=int, default=2)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--pairs", type=int, default=6)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--pace", type=float, default=0)
    parser.add_argument("--layers", action="store_true", help="barns, latency=on and matrix=on too")
    options = parser.parse_args()
    if options.run:
        layers = {"observed": True, "longer": 700} if options.layers else {}
        plans = {arm: plan_for(arm, cpus=options.cpus, rounds=options.rounds, **layers,
                               stored=share if options.layers else None)
                 for arm, share in (("A", 0.0), ("B", 0.9))}
        write_run(options.run, plans, options.pairs, options.pace, options.seed)
    elif options.out:
        options.out.write_bytes(capture(plan_for(options.arm, cpus=options.cpus,
                                                 rounds=options.rounds,
                                                 seed=options.seed)))
    else:
        parser.error("name an output file, or --run DIR")


if __name__ == "__main__":
    main()
