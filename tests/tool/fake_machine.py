"""A machine for tests without a kernel: programs that stand in for QEMU, and an image for them.

install(folder) puts a qemu-system-x86_64 into folder; with that folder first on PATH the tool boots it like
any other: it speaks the monitor's protocol, reads the SMBIOS arguments, and plays a synthetic capture into
telemetry.bin. How each boot ends is told by FAKE_PLAN, a comma-separated list, one entry a boot in turn, ok after
the last: ok, panic, reset, hang, refused, void, cut (well, but the stream stops early), torn (the same in the
middle of a frame), killed (by a signal, in the middle of a frame), nostart. FAKE_PACE stretches its time (1: real
time). FAKE_PROBE tells how the probe for KVM ends: works, slow (it emulates), broken.

What it deliberately is not: a test of QEMU's options. Those are for tests/boot, with the real one.
"""

import os
import struct
import sys
from dataclasses import replace
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]

PROGRAM = f"""#!{sys.executable}
import sys
sys.path[:0] = [{str(ROOT / 'tools')!r}, {str(ROOT / 'tests' / 'tool')!r}]
import fake_machine
sys.exit(fake_machine.main(sys.argv[1:]))
"""


def install(folder):
    folder.mkdir(parents=True, exist_ok=True)
    program = folder / "qemu-system-x86_64"
    program.write_text(PROGRAM)
    program.chmod(0o755)
    return program


TESTS = ("malloc/64/solo", "malloc/64/all-cpus", "malloc/4096/solo", "malloc/4096/all-cpus")


def make_image(path, knobs=None, tests=TESTS):
    """The smallest ELF64 file with the sections that carry the knobs and, unless None, the names of the tests."""
    texts = {".hayloft.knobs": (knobs if knobs is not None else (ROOT / "base" / "knobs.def").read_text()).encode()}
    if tests is not None:
        texts[".hayloft.tests"] = "".join(f"{name}\n" for name in tests).encode() + b"\0"
    texts[".shstrtab"] = b"".join(b"\0" + name.encode() for name in (*texts, ".shstrtab")) + b"\0"
    places, at = {}, 64
    for name, text in texts.items():
        places[name] = at
        at += len(text)
    out = struct.pack("<16sHHIQQQIHHHHHH", b"\x7fELF\x02\x01\x01", 2, 62, 1, 0, 0, at, 0, 64, 56, 0, 64,
                      len(texts) + 1, len(texts))
    out += b"".join(texts.values())
    out += struct.pack("<IIQQQQIIQQ", 0, 0, 0, 0, 0, 0, 0, 0, 0, 0)
    for name, text in texts.items():
        kind = 3 if name == ".shstrtab" else 1
        out += struct.pack("<IIQQQQIIQQ", texts[".shstrtab"].index(name.encode()), kind, 0, 0, places[name], len(text),
                           0, 0, 1, 0)
    Path(path).write_bytes(out)
    return Path(path)


def _option(argv, name, key):
    """The value of key in the option `-name …,key=value,…` that has it."""
    for at, word in enumerate(argv):
        if word == name:
            for part in argv[at + 1].split(","):
                if part.startswith(key + "="):
                    return part.split("=", 1)[1]
    return None


def _fate():
    """How this boot is to end: the next entry of FAKE_PLAN. The count lives beside the program."""
    plan = [word for word in os.environ.get("FAKE_PLAN", "").split(",") if word]
    counter = Path(sys.argv[0]).with_name("boots")
    number = len(counter.read_text()) if counter.exists() else 0
    with open(counter, "a", encoding="ascii") as out:
        out.write("x")
    return plan[number] if number < len(plan) else "ok"


def _monitor(fd):
    import json
    import socket
    with socket.socket(fileno=fd) as line, line.makefile("rwb") as stream:
        def say(value):
            stream.write(json.dumps(value).encode() + b"\n")
            stream.flush()
        say({"QMP": {}})
        for request in stream:
            verb = json.loads(request)["execute"]
            cpus = [{"cpu-index": n, "thread-id": os.getpid()} for n in range(2)]
            say({"return": cpus if verb == "query-cpus-fast" else {}})
            if verb == "cont":
                return


def _probe(how):
    import time
    if how == "slow":
        time.sleep(60)
    if how == "broken":
        print("qemu-system-x86_64: failed to initialize kvm: the fake says no", file=sys.stderr)
    return 1 if how == "broken" else 33


def main(argv):
    import signal
    import time

    import synth
    if "--version" in argv:
        print("QEMU emulator version 0.0 (fake)")
        return 0
    if not any("telemetry.bin" in word for word in argv):
        return _probe(os.environ.get("FAKE_PROBE", "works"))
    fate = _fate()
    if fate == "nostart":
        print("qemu-system-x86_64: the fake was told not to start", file=sys.stderr)
        return 1
    _monitor(int(_option(argv, "-chardev", "fd")))
    args = Path(_option(argv, "-smbios", "path")).read_text(encoding="ascii").removeprefix("hayloft:")
    given = [word for word in args.split() if not word.startswith("nonce=")]
    arm = "A" if "front=none" in args.split() else "B"
    plan = replace(synth.plan_for(arm), args=args, rounds=2, round_ms=100)
    if fate == "refused":
        plan = replace(plan, outcome="refused", refused=((given[-1], "not here", ""),))
    elif fate == "panic":
        plan = replace(plan, panic_after=1)
    elif fate == "void":
        plan = replace(plan, roundtrips=2)
    pace = float(os.environ.get("FAKE_PACE", "0"))
    Path("console.log").write_bytes(b"fake kernel\n")
    with open("telemetry.bin", "wb", buffering=0) as out:
        for number, (seconds, data) in enumerate(synth.steps(plan)):
            time.sleep(seconds * pace)
            if number > 2 and fate in ("torn", "killed"):
                out.write(data[:len(data) // 2 + 1])
                if fate == "killed":
                    os.kill(os.getpid(), signal.SIGKILL)
                break
            out.write(data)
            if number > 2 and fate in ("reset", "hang", "cut"):
                break
        if fate == "hang":
            time.sleep(3600)
    return {"reset": 0, "panic": 35, "refused": 37}.get(fate, 33)


def environment(folder, plan="", pace=0.0):
    """The environment in which the tool finds the fake."""
    env = dict(os.environ)
    env.update(PATH=f"{folder}:{env['PATH']}", FAKE_PLAN=plan, FAKE_PACE=str(pace),
               PYTHONPATH=str(ROOT / "tools"), XDG_STATE_HOME=str(folder / "state"),
               XDG_CACHE_HOME=str(folder / "cache"))
    return env


def experiment(folder, pairs=2, extra="", arms=("front=none", "front=bounded")):
    """An experiment file whose arms boot a made-up image, so that nothing is built."""
    folder.mkdir(parents=True, exist_ok=True)
    make_image(folder / "fake.elf")
    lines = "\n".join(f'{name} = {{ image = "fake.elf", args = "{args}" }}' for name, args in zip("ABCDEF", arms))
    path = folder / "fake.toml"
    path.write_text(f'title = "A fake run"\nmachine = {{ kind = "tcg", cpus = 2, timeout = "5s" }}\n'
                    f'boot = "kbench=2 tests=malloc/64,malloc/4096"\npairs = {pairs}\norder = "abba"\n{extra}\n[arms]\n{lines}\n')
    return path
