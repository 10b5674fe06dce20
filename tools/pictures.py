#!/usr/bin/python3
"""tools/pictures.py [RUN]: makes the README's pictures anew, in docs/pictures/.

  live-slab.png   the live view of an arm in which the barn's full list stands at its limit
  live-barn.png   and of the arm in which it goes up and down
  report.png      the first screen of the report
  report-barn.png what it draws of the two barns

RUN is a run of experiments/barn-partial.toml; without it one is made, which takes three minutes: with fewer, longer
rounds than the file asks for, since inside a round the kernel samples four times a second. The live pictures are drawn by the very board of the page (telemetry.live.board) from the bytes of the archived boots; the
report's is what Chromium shows of report.html. Needs what `./hayloft run` and its live view need, and Chromium.
Like the tool it wants a Python that has Matplotlib: the distribution's.
"""

import pathlib
import shutil
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT / "tools"))

from PIL import Image  # noqa: E402
from telemetry.live import board, feed  # noqa: E402

OUT = ROOT / "docs" / "pictures"
EXPERIMENT = ROOT / "experiments" / "barn-partial.toml"
CHROMIUM = ("chromium", "chromium-browser", "google-chrome")
REPORT_SIZE = 1060, 840  # pixels of the window
MOST_BYTES = 300_000
COLOURS = 200  # of a picture with few colours this many are enough, in a third of the bytes


LONG_ROUNDS = ("--set", "kbench=6", "--set", "kbench.ms=300")


def make_run(folder):
    done = subprocess.run([ROOT / "hayloft", "run", EXPERIMENT, *LONG_ROUNDS, "--out", folder, "--live", "off"],
                          check=False)
    if not (folder / "report.html").is_file():
        sys.exit(done.returncode or 1)


def read_all(source):
    while not source.ended:
        source.poll()
    return source.state


def live_picture(run, arm, path):
    """The board as it was at the end of the arm's last boot that counts, with the figures of all boots."""
    state = read_all(feed.RunFeed(run))
    name = [boot.id for boot in state.here() if boot.arm == arm and boot.outcome == "ok"][-1]
    boot = read_all(feed.RunFeed(run, boot=name)).current
    boot.place = list(state.boots).index(name) + 1
    state.state = "running"
    state.update(boot)
    board.snapshot(state, path)


def report_picture(run, path):
    program = next(filter(None, map(shutil.which, CHROMIUM)), None)
    if program is None:
        sys.exit(f"pictures.py: none of {', '.join(CHROMIUM)} is installed")
    with tempfile.TemporaryDirectory() as profile:
        subprocess.run([program, "--headless=new", "--no-sandbox", "--disable-gpu", "--hide-scrollbars",
                        "--force-device-scale-factor=1", f"--user-data-dir={profile}",
                        f"--window-size={REPORT_SIZE[0]},{REPORT_SIZE[1]}", f"--screenshot={path}",
                        (run / "report.html").resolve().as_uri()], check=True, timeout=120,
                       stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)


def shrink(path):
    image = Image.open(path).convert("RGB")
    image.quantize(COLOURS, dither=Image.Dither.NONE).save(path, optimize=True)
    size = path.stat().st_size
    if size > MOST_BYTES:
        sys.exit(f"pictures.py: {path} has {size:,} bytes; at most {MOST_BYTES:,} are wanted in the tree")
    print(f"{path}: {image.width} x {image.height}, {size:,} bytes")


def main():
    OUT.mkdir(exist_ok=True)
    with tempfile.TemporaryDirectory() as scratch:
        run = pathlib.Path(sys.argv[1]) if len(sys.argv) > 1 else pathlib.Path(scratch) / "run"
        if len(sys.argv) < 2:
            make_run(run)
        live_picture(run, "A", OUT / "live-slab.png")
        live_picture(run, "B", OUT / "live-barn.png")
        report_picture(run, OUT / "report.png")
        shutil.copy(run / "plots" / "barn.png", OUT / "report-barn.png")
    for path in sorted(OUT.glob("*.png")):
        shrink(path)


if __name__ == "__main__":
    main()
