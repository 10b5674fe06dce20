"""The archive: one folder a run, readable without the tool.

  RUN/  experiment.toml run.json results.json report.* plots/   image/   boots/ID/ boot.json console.log
        telemetry.bin qemu.log result.json

Files are written aside and renamed, so a reader, or a tool killed at any moment, sees a whole file or none.
The folder, experiment.toml and run.json exist before anything is built or booted. A boot's folder exists
before its machine starts and gets boot.json when it has ended: a folder without one is an unfinished boot.

Locking: whoever writes holds an flock on the run's folder itself, which needs no file and ends with the
process; a second writer is refused. What a killed writer left aside, the next one removes.
"""

import contextlib
import datetime
import fcntl
import json
import os
import pathlib
import re
import shutil
import stat

from . import ROOT, image
from .errors import HayloftError, cannot_write

RUNS = ROOT / "runs"
SCHEMA = 1


_ASIDE = re.compile(r"\..+\.[0-9]+")


@contextlib.contextmanager
def aside(path):
    """Yields the name under which to write what then becomes path in one step; nothing is left of it where that
    fails. An OSError becomes the one line for people."""
    path = pathlib.Path(path)
    made = path.with_name(f".{path.name}.{os.getpid()}")
    try:
        yield made
        os.replace(made, path)
    except BaseException as error:
        with contextlib.suppress(OSError):
            made.unlink()
        if isinstance(error, OSError):
            raise cannot_write(path, error) from error
        raise


def write_text(path, text):
    """Replaces path by text in one step."""
    with aside(path) as made, open(made, "w", encoding="utf-8") as file:
        file.write(text)
        file.flush()
        os.fsync(file.fileno())


def write_json(path, value):
    write_text(path, json.dumps(value, indent=1, ensure_ascii=False, allow_nan=False) + "\n")


def read_json(path, what):
    """The object in a JSON file of the archive; HayloftError names what is wrong with it."""
    try:
        value = json.loads(pathlib.Path(path).read_text(encoding="utf-8"))
    except FileNotFoundError as error:
        raise HayloftError(f"{path}: missing; {what}") from error
    except (OSError, UnicodeDecodeError, ValueError) as error:
        raise HayloftError(f"{path}: cannot be read ({error}); {what}") from error
    if not isinstance(value, dict):
        raise HayloftError(f"{path}: holds no JSON object; {what}")
    return value


class Run:
    """A run's folder. Opened for reading by open_run(), for writing by create() or with locked=True."""

    def __init__(self, folder, lock=None):
        self.dir = pathlib.Path(folder)
        self._lock = lock
        self.info = {}

    @property
    def boots_dir(self):
        return self.dir / "boots"

    def save(self):
        """Writes run.json."""
        if self._lock is None:
            raise RuntimeError("this run is open for reading only")
        write_json(self.dir / "run.json", self.info)

    def start_boot(self, identity):
        """The fresh folder of a boot about to start."""
        folder = self.boots_dir / identity
        try:
            folder.mkdir(parents=True)
        except FileExistsError:
            raise
        except OSError as error:
            raise cannot_write(folder, error) from error
        return folder

    def end_boot(self, identity, boot, result):
        """Archives what became of a boot; boot.json last, since it makes the boot a finished one."""
        folder = self.boots_dir / identity
        if result is not None:
            write_json(folder / "result.json", result)
        write_json(folder / "boot.json", boot)

    def boots(self):
        """{id: boot.json} of the finished boots."""
        found = {}
        for folder in self._boot_folders():
            if (folder / "boot.json").exists():
                found[folder.name] = read_json(folder / "boot.json", "move the boot's folder away, then resume")
        return found

    def unfinished(self):
        """Names of boot folders whose boot never ended."""
        return [folder.name for folder in self._boot_folders() if not (folder / "boot.json").exists()]

    def sweep(self):
        """Removes what a writer that was killed left aside. For the one who holds the lock."""
        if self._lock is None:
            raise RuntimeError("this run is open for reading only")
        for folder in (self.dir, self.dir / "image", self.dir / "plots", *self._boot_folders()):
            for path in folder.glob(".*"):
                if _ASIDE.fullmatch(path.name) and path.is_file():
                    with contextlib.suppress(OSError):
                        path.unlink()

    def _boot_folders(self):
        if not self.boots_dir.is_dir():
            return []
        return sorted(path for path in self.boots_dir.iterdir() if path.is_dir())

    def add_image(self, source, checksum, label=""):
        """Stores an image once, by checksum; returns its path inside the run."""
        known = self.info.setdefault("images", {})
        if checksum in known:
            return known[checksum]
        source = pathlib.Path(source)
        name = f"image/{source.stem}{'-' + label if label else ''}{source.suffix}"
        target = self.dir / name
        try:
            target.parent.mkdir(exist_ok=True)
        except OSError as error:
            raise cannot_write(target.parent, error) from error
        with aside(target) as made:
            shutil.copyfile(source, made)
            os.chmod(made, stat.S_IMODE(source.stat().st_mode))
            if image.sha256(made) != checksum:
                raise HayloftError(f"{source}: changed while it was being archived; run again")
        known[checksum] = name
        return name

    def close(self):
        if self._lock is not None:
            os.close(self._lock)
            self._lock = None

    def __enter__(self):
        return self

    def __exit__(self, *exception):
        self.close()


def _take_lock(folder):
    lock = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError as error:
        os.close(lock)
        raise HayloftError(f"{folder}: another hayloft is writing to this run; wait for it, or watch it") from error
    return lock


def create(folder, name, experiment_text, info):
    """A new run: its folder (given, and then new or empty; else runs/TIME-NAME), experiment.toml, run.json.
    A folder that is not there yet is made aside and renamed, so that it never is there without them."""
    if folder is None:
        stamp = datetime.datetime.now().strftime("%Y-%m-%dT%H-%M-%S")
        folder, again = RUNS / f"{stamp}-{name}", 1
        while folder.exists():
            again += 1
            folder = RUNS / f"{stamp}-{name}-{again}"
    folder = pathlib.Path(folder)
    check_new(folder)
    made = folder if folder.exists() else folder.with_name(f".{folder.name}.{os.getpid()}")
    try:
        made.mkdir(parents=True, exist_ok=True)
        run = Run(made, _take_lock(made))
    except OSError as error:
        raise HayloftError(f"{folder}: cannot be made: {error.strerror}") from error
    try:
        check_new(made)  # again, now that nobody else can be filling it
        write_text(made / "experiment.toml", experiment_text)
        run.info = info
        run.boots_dir.mkdir()
        run.save()
        if made != folder:
            os.rename(made, folder)
            run.dir = folder
    except (OSError, HayloftError) as error:
        if made != folder:
            shutil.rmtree(made, ignore_errors=True)
        run.close()
        cause = error if isinstance(error, OSError) else error.__cause__
        if isinstance(cause, OSError):
            raise cannot_write(folder, cause) from error
        raise
    return run


def check_new(folder):
    folder = pathlib.Path(folder)
    if not folder.exists():
        return
    if not folder.is_dir():
        raise HayloftError(f"{folder}: is a file; --out names a new or empty folder")
    if any(folder.iterdir()):
        hint = "; to go on with it, use ./hayloft resume" if (folder / "run.json").exists() else ""
        raise HayloftError(f"{folder}: is not empty; --out names a new or empty folder{hint}")


def locate(name):
    """The folder of a run: as given, else by its name, or the end of it, under runs/."""
    path = pathlib.Path(name)
    if (path / "run.json").is_file():
        return path
    if path.is_dir():
        raise HayloftError(f"{path}: no run.json in it, so it is no run; ./hayloft list shows those there are")
    fitting = [folder for folder in folders() if folder.name == name or folder.name.endswith(f"-{name}")]
    if fitting:
        return fitting[-1]
    raise HayloftError(f"{name}: no such run; ./hayloft list shows those there are")


def open_run(name, locked=False):
    """A run for reading or, locked, for going on with."""
    folder = locate(name)
    run = Run(folder, _take_lock(folder) if locked else None)
    try:
        run.info = read_json(folder / "run.json", "without it the run cannot be read")
        if run.info.get("schema") != SCHEMA:
            raise HayloftError(f"{folder}/run.json: schema {run.info.get('schema')!r}, this tool reads {SCHEMA}")
        for key, kind in (("experiment", str), ("arms", dict), ("order", list), ("machine", dict), ("state", str)):
            if not isinstance(run.info.get(key), kind):
                raise HayloftError(f"{folder}/run.json: no usable '{key}' in it; the file was changed or cut off")
    except HayloftError:
        run.close()
        raise
    if locked:
        run.sweep()
    return run


def is_busy(folder):
    """True while somebody writes to a run."""
    try:
        os.close(_take_lock(folder))
        return False
    except (HayloftError, OSError):
        return True


def folders():
    """Every run under runs/, oldest first (names begin with their time)."""
    if not RUNS.is_dir():
        return []
    return sorted(path for path in RUNS.iterdir() if (path / "run.json").is_file())


def locate_boot(name):
    """The folder of a boot: a path, or RUN/ID with RUN as in locate()."""
    path = pathlib.Path(name)
    if (path / "telemetry.bin").is_file():
        return path
    if path.is_file() and path.name == "telemetry.bin":
        return path.parent
    run_name, _, identity = str(name).rstrip("/").rpartition("/")
    with contextlib.suppress(HayloftError):
        folder = locate(run_name) / "boots" / identity
        if (folder / "telemetry.bin").is_file():
            return folder
    raise HayloftError(f"{name}: no archived boot there; give RUN/boots/ID or RUN/ID")
