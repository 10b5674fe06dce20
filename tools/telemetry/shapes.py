"""What a record's body must look like, by docs/PROTOCOL.md, so that no reader after the decoder
need ask again.

A body that passed the CRC was written by a kernel, but perhaps by one with a bug, or by someone who
wants to see the tool fall. Each checker returns None if the value is as the protocol says, else a
few words on what is wrong. Keys that the protocol does not know are let through: that is how it
grows. Nothing here converts or repairs.
"""

LARGEST = 2**64 - 1
TYPES = ("hello", "schema", "object", "sample", "bench", "check", "event", "lost", "panic", "bye",
         "latency", "matrix")
BUCKETS = 132  # of a latency histogram
SCOPES = ("cpu", "cache", "lock", "node", "global")
BOOT_STREAM = 255
PROTOCOL = 1

_INT = {int}


def unsigned(value):
    return None if type(value) is int and 0 <= value <= LARGEST else "is no unsigned number"


def signed(value):
    return None if type(value) is int and -(2**63) <= value <= LARGEST else "is no number"


def positive(value):
    return None if type(value) is int and 0 < value <= LARGEST else "is no positive number"


def small(value):
    """A CPU's number: bounded, because readers make a row of their tables for each."""
    return None if type(value) is int and 0 <= value < 255 else "is no CPU number"


def bucket(value):
    return None if type(value) is int and 0 <= value < BUCKETS else "is no bucket"


def text(value):
    return None if type(value) is str else "is no text"


def boolean(value):
    return None if type(value) is bool else "is no truth value"


def one_of(*words):
    def check(value):
        return None if type(value) is str and value in words else "is none of " + ", ".join(words)

    return check


def array(item):
    def check(value):
        if type(value) is not list:
            return "is no array"
        for index, element in enumerate(value):
            wrong = item(element)
            if wrong:
                return f"[{index}] {wrong}"
        return None

    return check


def row(*items):
    """An array of exactly these."""

    def check(value):
        if type(value) is not list or len(value) != len(items):
            return f"is no array of {len(items)}"
        for index, (item, element) in enumerate(zip(items, value)):
            wrong = item(element)
            if wrong:
                return f"[{index}] {wrong}"
        return None

    return check


def mapping(item):
    def check(value):
        if type(value) is not dict:
            return "is no map"
        for key, element in value.items():
            if type(key) is not str:
                return "has a key that is no text"
            wrong = item(element)
            if wrong:
                return f"{key} {wrong}"
        return None

    return check


def fields(required, optional):
    """A map with these keys; others are let through."""

    def check(value):
        if type(value) is not dict or not all(type(key) is str for key in value):
            return "is no map with text keys"
        for key in required:
            if key not in value:
                return f"has no {key}"
        for key, item in (*required.items(), *optional.items()):
            wrong = item(value[key]) if key in value else None
            if wrong:
                return f"{key} {wrong}"
        return None

    return check


_LEFT_OUT = array(fields({"name": text, "unit": text, "amount": unsigned},
                         {"of": unsigned, "doc": text, "detail": text, "voids": boolean}))
_FRAMES = array(row(unsigned, text, unsigned))

# type -> (keys that must be there, keys that may be)
_BODIES = {
    "hello": (
        {"protocol": positive, "tsc_hz": positive,
         "cpus": array(row(small, unsigned, unsigned, signed)),
         "knobs": mapping(text)},
        {"kernel": text, "git": text, "dirty": boolean, "compiler": text, "flags": text,
         "variant": text,
         "schema": unsigned, "platform": text, "hypervisor": text, "cpus_found": unsigned,
         "memory": unsigned,
         "tsc_invariant": boolean, "flags_fault": boolean, "tick_hz": unsigned, "args": text,
         "args_bytes": unsigned, "left_out": _LEFT_OUT,
         "refused": array(row(text, text, text))},
    ),
    "schema": (
        {"id": unsigned, "name": text, "unit": text,
         "kind": one_of("sum", "max", "gauge", "derived"),
         "scope": one_of(*SCOPES)},
        {"panel": text, "doc": text, "formula": text},
    ),
    "object": (
        {"kind": one_of("cache", "lock", "node", "test"), "id": unsigned, "name": text},
        {"size": unsigned, "capacity": unsigned, "slab": unsigned,
         "objects": unsigned, "state": unsigned, "limits": mapping(unsigned), "class": text, "unit": text, "shape": text,
         "cpus": unsigned,
         "skip": text, "shortage": mapping(unsigned)},
    ),
    "bench": (
        {"phase": one_of("begin", "end", "result"), "test": unsigned, "round": unsigned},
        {"operations": unsigned, "cycles": unsigned, "wall": unsigned, "n": unsigned,
         "cpus": array(row(small, small, unsigned, unsigned, unsigned)),
         "counted": row(unsigned, unsigned),
         "claimed": row(unsigned, unsigned),
         "yardstick": array(row(small, unsigned, unsigned)),
         "made": array(unsigned), "whole": unsigned},
    ),
    "check": ({"name": text, "ok": boolean},
              {"when": text, "detail": text, "values": mapping(signed)}),
    "event": ({"kind": text}, {"text": text, "values": mapping(unsigned)}),
    "lost": ({"stream": unsigned, "count": unsigned}, {"from": unsigned, "to": unsigned}),
    "panic": (
        {"kind": unsigned, "name": text},
        {"text": text, "file": text, "line": unsigned, "values": array(signed), "cpu": unsigned,
         "registers": mapping(unsigned), "backtrace": _FRAMES,
         "others": array(row(unsigned, _FRAMES)), "left_out": mapping(unsigned)},
    ),
    "bye": (
        {"outcome": text},
        {"reason": text, "totals": array(row(unsigned, unsigned, unsigned)),
         "telemetry": mapping(unsigned), "left_out": _LEFT_OUT, "made": array(unsigned)},
    ),
    "latency": (
        {"test": unsigned, "round": unsigned, "level": text, "call": one_of("alloc", "free"),
         "max": unsigned, "buckets": array(row(bucket, unsigned))},
        {"about": text, "every": positive, "clock": unsigned},
    ),
    "matrix": (
        {"test": unsigned, "round": unsigned, "cpu": small, "from": array(row(small, unsigned))},
        {},
    ),
}


def _sample(body):
    """The bulk of every capture, so checked with few calls a row."""
    if type(body) is not list:
        return "sample is no array"
    for values in body:
        if type(values) is not list or len(values) < 5 or not len(values) & 1:
            return "sample row is no [scope, instance, cpu, id, value, …]"
        if set(map(type, values)) != _INT or min(values) < 0:  # none is above LARGEST: the reader lets no tags in
            return "sample row holds something other than unsigned numbers"
        if values[0] > 4 or values[2] > 254:
            return "sample row names no scope or CPU"
    return None


def wrong_with(kind: str, body) -> str | None:
    """What is wrong with this body of a whole record of this type, or None."""
    if kind == "sample":
        return _sample(body)
    if type(body) is not dict:
        return f"{kind} is no map"
    if not all(type(key) is str for key in body):
        return f"{kind} has a key that is no text"
    required, optional = _BODIES[kind]
    for key, check in required.items():
        if key not in body:
            return f"{kind} has no {key}"
        wrong = check(body[key])
        if wrong:
            return f"{kind} {key} {wrong}"
    for key, check in optional.items():
        if key in body:
            wrong = check(body[key])
            if wrong:
                return f"{kind} {key} {wrong}"
    if kind == "hello" and body["protocol"] != PROTOCOL:
        return f"hello speaks protocol {body['protocol']}; this reader knows {PROTOCOL}"
    result = kind == "bench" and body["phase"] == "result"
    if result and not {"operations", "cycles"} <= body.keys():
        return "bench result lacks operations or cycles"
    return None
