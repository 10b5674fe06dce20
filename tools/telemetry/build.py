"""Builds images with ninja, and makes an ISO for any kernel.

A run boots from the copy of the image that it archived: rebuilding the tree meanwhile cannot change what
later boots of the run measure. The ISO is made from that copy (tools/mkiso.py gives the same bytes each
time), so the archive need not hold it; ISOs are kept under build/images/ by the checksums of what they are made of
and with.

ninja is started from the main thread and dies with the tool: by SIGTERM, so that it ends its compilers too.
"""

import dataclasses
import hashlib
import os
import pathlib
import re
import shutil
import signal
import subprocess
import sys

from . import ROOT, image
from .errors import EXIT_MACHINE, EXIT_USAGE, HayloftError
from .machine import Image, child

BUILD = ROOT / "build"
IMAGES = BUILD / "images"
KEPT_IMAGES = 12
PATIENCE = 2.0  # seconds of a build after which people are told that there is one


@dataclasses.dataclass(frozen=True)
class Source:
    """Where an arm's image comes from: this tree, another revision of it, or a file."""

    rev: str | None = None
    path: pathlib.Path | None = None


def target(hosted, variant="release"):
    """The ELF file of a variant, relative to a checkout."""
    if hosted:
        return "build/host/hayloft-host" if variant == "release" else f"build/{variant}/hayloft-host"
    return f"build/{variant}/kernel.elf"


def _building(targets, log):
    """In a fresh tree nothing else is seen for a minute. For people only: a script has the log."""
    if sys.stderr.isatty():
        print(f"building {', '.join(targets)}, once a tree; {log} grows meanwhile", file=sys.stderr, flush=True)


def ninja(targets, log, tree=ROOT):
    """Builds targets in tree with all output in log; the first error is the exception's text."""
    program = shutil.which("ninja")
    if not program:
        raise HayloftError("ninja is not installed; run ./hayloft doctor --install", EXIT_MACHINE)
    with open(log, "ab") as out:
        process = child.start([program, "-C", tree, *targets], death_signal=signal.SIGTERM,
                              stdout=out, stderr=subprocess.STDOUT)
        try:
            status = child.wait(process, PATIENCE, lambda: _building(targets, log))
        finally:
            child.end(process, grace=2.0)
    if status != 0:
        raise HayloftError(f"the build failed: {first_error(log)}; all of it is in {log}", EXIT_USAGE)


def first_error(log):
    """The line of a build's log that says what went wrong first."""
    lines = [line.strip() for line in pathlib.Path(log).read_text(errors="replace").splitlines() if line.strip()]
    for line in lines:
        if re.search(r"\b(error|undefined symbol):", line) and not line.startswith("ninja:"):
            return line
    for number, line in enumerate(lines):
        if line.startswith("FAILED:"):  # then the command, then what it said
            return lines[number + 2] if number + 2 < len(lines) else line
    return lines[-1] if lines else "ninja said nothing"


def build(hosted, log, variant="release", tree=ROOT):
    """Builds a variant of a checkout and returns the path of its ELF file."""
    wanted = target(hosted, variant)
    ninja([wanted], log, tree)
    return tree / wanted


def commit_of(rev):
    """The full id of a revision of this checkout."""
    found = child.run(["git", "-C", ROOT, "rev-parse", "--verify", "--quiet", f"{rev}^{{commit}}"])
    if found.returncode != 0 or not is_checkout():
        raise HayloftError(f"git knows no revision '{rev}'; name a commit, a tag or a branch")
    return found.stdout.strip()


def is_checkout():
    """Whether git's repository here is this tree, not one that it happens to lie in."""
    try:
        found = child.run(["git", "-C", ROOT, "rev-parse", "--show-toplevel"], timeout=30)
    except (OSError, subprocess.TimeoutExpired):
        return False
    return found.returncode == 0 and pathlib.Path(found.stdout.rstrip("\n")).resolve() == ROOT.resolve()


def build_rev(rev, hosted, log):
    """Builds another revision in a folder of its own; returns the path of its ELF file."""
    commit = commit_of(rev)
    tree = BUILD / "revs" / commit[:16]
    if not (tree / "build.ninja").exists():
        tree.mkdir(parents=True, exist_ok=True)
        packed = tree / "revision.tar"
        for argv in (["git", "-C", ROOT, "archive", "-o", packed, commit],
                     ["tar", "-x", "-f", packed, "-C", tree]):
            done = child.run(argv)
            if done.returncode != 0:
                shutil.rmtree(tree, ignore_errors=True)
                raise HayloftError(f"revision '{rev}' cannot be unpacked: {done.stderr.strip()}")
        packed.unlink()
    return build(hosted, log, tree=tree)


def open_image(elf, hosted, checksum=None):
    """An Image of an ELF file, with an ISO made for it where a machine needs one."""
    elf = pathlib.Path(elf)
    checksum = checksum or image.sha256(elf)
    return Image(elf, None if hosted else make_iso(elf, checksum), checksum, hosted)


def make_iso(elf, checksum):
    maker, config = ROOT / "tools" / "mkiso.py", ROOT / "arch" / "x86_64" / "grub.cfg"
    parts = (checksum, image.sha256(maker), image.sha256(config))
    folder = IMAGES / hashlib.sha256(" ".join(parts).encode()).hexdigest()[:16]
    iso = folder / "hayloft.iso"
    if iso.exists():
        os.utime(folder)
        return iso
    folder.mkdir(parents=True, exist_ok=True)
    aside = folder / f".hayloft.iso.{os.getpid()}"
    done = child.run([sys.executable, maker, "--kernel", elf, "--config", config, "--output", aside], timeout=120)
    if done.returncode != 0:
        last = (done.stderr.strip() or "mkiso.py said nothing").splitlines()[-1]
        raise HayloftError(f"no ISO could be made from {elf}: {last}", EXIT_MACHINE)
    os.replace(aside, iso)
    _prune(folder)
    return iso


def _prune(keep):
    """Forgets the ISOs used longest ago."""
    folders = sorted((path for path in IMAGES.iterdir() if path.is_dir()), key=lambda path: path.stat().st_mtime)
    for folder in folders[:-KEPT_IMAGES]:
        if folder != keep:
            shutil.rmtree(folder, ignore_errors=True)


def git_state():
    """{"id", "dirty"} of the checkout; None for both where git does not know it, or knows only what lies around it."""
    if not is_checkout():
        return {"id": None, "dirty": None}

    def git(*words):
        try:
            done = child.run(["git", "-C", ROOT, *words], timeout=30)
        except (OSError, subprocess.TimeoutExpired):
            return None
        return done.stdout.strip() if done.returncode == 0 else None
    status = git("status", "--porcelain", "--untracked-files=no")
    return {"id": git("rev-parse", "HEAD"), "dirty": bool(status) if status is not None else None}
