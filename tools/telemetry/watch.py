"""The verb `watch`: live plots of a run in progress, of one boot whose tests repeat, of a machine
on a serial line.

A watched boot is a run of one boot in a folder that goes away afterwards, so that the view is the
same process that reads the same files as in a run. What it measures is shown and not kept: a claim
needs `run`.
"""

from __future__ import annotations

import contextlib
import shutil
import tempfile
import time
from pathlib import Path

from .errors import EXIT_BOOTS, EXIT_MACHINE, EXIT_USAGE, HayloftError
from .replay import show_feed

BAUD = 115200
ENDLESS = {"kbench": "3", "repeat": "1", "deadline": "0"}  # unless the arguments say otherwise
BOOT_ID = "watch"


def main(run: str | None = None, args: str = "", machine: str | None = None, settings=(),
         serial: str | None = None,
         port: int | None = None, kind: str = "web") -> int:
    """One of: run, a run's folder or name; serial, a device; else a boot with args. Returns the
    exit code."""
    if run and serial:
        raise HayloftError("watch: a run or --serial, not both")
    if (run or serial) and (args or machine or settings):
        raise HayloftError("watch: --args, --machine and --set are for a boot, "
                           "not for a run or a serial line")
    if run:
        return watch_run(run, port, kind)
    if serial:
        return watch_serial(serial, port, kind)
    return watch_boot(args, machine, settings, port, kind)


def watch_run(run: str, port: int | None, kind: str) -> int:
    from . import store
    from .live.feed import RunFeed

    return show_feed(RunFeed(store.locate(run)), kind, port)


def watch_serial(device: str, port: int | None, kind: str) -> int:
    from .live.feed import SerialFeed

    try:
        import serial
    except ImportError:
        raise HayloftError("watch --serial needs python3-serial; "
                           "./hayloft doctor --install gets it", EXIT_MACHINE) from None
    try:
        with serial.serial_for_url(device, baudrate=BAUD, timeout=0) as line:
            return show_feed(SerialFeed(line, device), kind, port)
    except (serial.SerialException, OSError, ValueError) as error:
        raise HayloftError(f"{device}: {error}; is the device there, and may you read it?",
                           EXIT_MACHINE) from None


def watch_boot(args: str, machine: str | None, settings, port: int | None, kind: str) -> int:
    from . import boot, run
    from . import machine as machines

    spec = machines.resolve(boot.parse_settings(settings, machine))
    folder = Path(tempfile.mkdtemp(prefix="hayloft-watch-"))
    try:
        with run.stop_by_signal(), contextlib.suppress(KeyboardInterrupt):
            return _watch_boot(args, spec, folder, port, kind)
        print()
        return 0
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def arguments_for(args: str, spec, knobs) -> str:
    """The arguments, with what makes the tests go on until stopped."""
    from . import run

    words = args.split()
    named = {word.partition("=")[0] for word in words}
    words += [f"{name}={value}" for name, value in ENDLESS.items() if name not in named]
    return " ".join([*words, *run.added_arguments(" ".join(words), spec, knobs)])


def _watch_boot(args: str, spec, folder: Path, port: int | None, kind: str) -> int:
    import dataclasses

    from . import boot, build, image, live, machine, outcome, run, store
    from .machine import child

    build.BUILD.mkdir(exist_ok=True)
    elf = build.build(spec.hosted, build.BUILD / "watch.log", "release")
    knobs = image.read_knobs(elf)
    boot.check_arguments(args, knobs, spec.hosted, spec.cpus, image.read_tests(elf))
    arguments = arguments_for(args, spec, knobs)
    spec = dataclasses.replace(spec, timeout=0)  # until it is stopped
    title = f"watching {args}" if args else "watching the default arguments"
    store.write_json(folder / "run.json", {
        "title": title, "arms": {"A": args}, "reference": "A", "state": "running",
        "machine": spec.describe()})
    boot_dir = folder / "boots" / BOOT_ID
    boot_dir.mkdir(parents=True)
    about = {"id": BOOT_ID, "arm": "A", "pair": 1, "point": {}, "args": arguments,
             "started": machine.now()}
    store.write_json(boot_dir / "boot.json", about)
    view = live.start_view(folder, kind, port)
    try:
        if view.address:
            print(f"live view: {view.address} (Ctrl-C ends the boot and the view)", flush=True)
        running = machine.start(spec, build.open_image(elf, spec.hosted), arguments, boot_dir)
        ended = running.wait()
        result, (what, why) = run.judge(boot_dir, ended, arguments, knobs)
        store.write_json(boot_dir / "boot.json",
                         {**about, "ended": ended.ended, "outcome": what, "reason": why})
        print(f"the boot ended: {what}{f': {why}' if why else ''}; the picture stays until Ctrl-C",
              flush=True)
        codes = {outcome.OK: 0, outcome.REFUSED: EXIT_USAGE}
        _stay(view)
        return codes.get(what, EXIT_BOOTS)
    finally:
        child.end(view, grace=1.0)


def _stay(view) -> None:
    """Until Ctrl-C, or until the view itself is gone."""
    with contextlib.suppress(KeyboardInterrupt):
        while view.poll() is None:
            time.sleep(0.2)
