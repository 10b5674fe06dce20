"""Kills a run again and again at random moments, and looks after each time whether anything was lost.

What must hold after any kill -9: no machine is left; every JSON file is whole; every boot that was archived before is
still there, byte for byte; and a resume goes on. In the end a resume completes the run. The moments are drawn from a
seed that is printed, since a failure is only as good as its repetition. Used with the fake machine by tests/tool, with
real ones by tests/boot.
"""

import json
import os
import random
import shutil
import subprocess
import time
from pathlib import Path

VOID = {"not parallel", "incomplete"}


def machines_below(folder):
    """Processes that still work in a folder below this one."""
    found = []
    for pid in filter(str.isdigit, os.listdir("/proc")):
        try:
            if os.readlink(f"/proc/{pid}/cwd").startswith(str(folder)):
                found.append(int(pid))
        except OSError:
            pass
    return found


class Victim:
    """command(words) gives the argument list that starts the tool with these words."""

    def __init__(self, out, experiment, command, env=None, seed=None, patience=120.0):
        self.out, self.experiment, self.command, self.env = Path(out), experiment, command, env
        self.seed = random.randrange(1 << 32) if seed is None else seed
        self.random = random.Random(self.seed)
        self.patience = patience
        self.archived = {}
        self.kills = self.finished = 0
        self.states = {}  # where the kills fell

    def words(self):
        if (self.out / "run.json").exists():
            return ["resume", self.out, "--live", "off"]
        return ["run", self.experiment, "--out", self.out, "--live", "off"]

    def start(self):
        return subprocess.Popen([str(word) for word in self.command(self.words())], env=self.env,
                                stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)

    def story(self, text):
        return f"seed {self.seed}, after {self.kills} kills: {text}"

    def look(self):
        until = time.monotonic() + 3.0
        while machines_below(self.out) and time.monotonic() < until:
            time.sleep(0.02)
        assert machines_below(self.out) == [], self.story("a machine outlived the tool")
        for path in self.out.rglob("*.json"):
            json.loads(path.read_text())
        now = {folder.parent.name: {path.name: path.read_bytes() for path in folder.parent.iterdir()
                                    if not path.name.startswith(".")}
               for folder in self.out.glob("boots/*/boot.json")}
        for name, files in self.archived.items():
            assert now.get(name) == files, self.story(f"archived boot {name} was lost or changed")
        self.archived = now

    def complete(self, output, code):
        """A run that was let finish: whole, and nothing in it that a kill does not explain."""
        self.look()
        outcomes = {boot: json.loads(files["boot.json"])["outcome"] for boot, files in self.archived.items()}
        assert set(outcomes.values()) <= {"ok", *VOID}, self.story(f"{outcomes}\n{output}")
        allowed = (0, 3) if "not parallel" in outcomes.values() else (0,)
        assert code in allowed, self.story(f"exit {code}\n{output}")
        assert json.loads((self.out / "run.json").read_text())["state"] == "done", self.story(output)
        assert [path for path in self.out.rglob(".*")] == [], self.story("something was left aside")
        used = [boot for boot in json.loads((self.out / "results.json").read_text())["boots"] if boot["used"]]
        planned = json.loads((self.out / "run.json").read_text())["order"]
        assert code == 3 or len(used) == len(planned), self.story(f"{len(used)} of {len(planned)} boots\n{output}")
        self.finished += 1

    def kill_once(self, longest):
        """Starts, kills at a random moment up to `longest` seconds; a run that ended before that begins anew."""
        tool = self.start()
        try:
            output, _ = tool.communicate(timeout=self.random.uniform(0, longest))
        except subprocess.TimeoutExpired:
            tool.kill()
            tool.communicate()
            self.kills += 1
            state = "before the run" if not self.out.exists() else f"{len(list(self.out.glob('boots/*')))} boots begun"
            self.states[state] = self.states.get(state, 0) + 1
            self.look()
            return
        self.complete(output.decode(errors="replace"), tool.returncode)
        shutil.rmtree(self.out)
        self.archived = {}

    def campaign(self, kills, longest):
        while self.kills < kills:
            self.kill_once(longest)
        tool = self.start()
        try:
            output, _ = tool.communicate(timeout=self.patience)
        finally:
            tool.kill()
        self.complete(output.decode(errors="replace"), tool.returncode)
