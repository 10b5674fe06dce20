"""The launcher: any folder, any link, a bare machine, and a python3 on PATH that cannot do it."""

import os
import shutil
import subprocess

import pytest

from telemetry import ROOT

LIST = """
tool   command  python3       python3
tool   module   json          python3-json
build  command  hay-fork      hay-tools
build  file     {have}        hay-data
test   command  hay-rake|hay-fork  hay-tools
test   module   nonesuch_hay  python3-hay
"""
# A stand-in for apt-get: says what it was asked, and for `install` brings what the packages would.
APT = """#!/bin/sh
echo "apt-get $*" >>"{log}"
echo noise
[ "$1" = update ] && exit {update}
case " $* " in *" hay-tools "*) printf '#!/bin/sh\\n' >"{bin}/hay-fork" && chmod +x "{bin}/hay-fork" ;; esac
case " $* " in *" hay-data "*) touch "{have}" ;; esac
exit {install}
"""


class Checkout:
    """A checkout with a launcher, a tool that only echoes, and an apt-get that only notes."""

    def __init__(self, folder):
        self.root = folder / "a checkout"
        self.bin = folder / "bin"
        self.log = folder / "apt.log"
        self.have = folder / "data"
        (self.root / "tools" / "telemetry").mkdir(parents=True)
        self.bin.mkdir()
        shutil.copy(ROOT / "hayloft", self.root / "hayloft")
        (self.root / "tools" / "packages.txt").write_text(LIST.format(have=self.have))
        (self.root / "tools" / "telemetry" / "__init__.py").touch()
        (self.root / "tools" / "telemetry" / "__main__.py").write_text(
            "import sys\nprint(sys.executable)\nprint(sys.argv[1:])\nsys.exit(7)\n")
        for name in ("sh", "dirname", "readlink", "awk", "id", "env", "touch", "chmod", "python3"):
            (self.bin / name).symlink_to(shutil.which(name, path="/usr/bin:/bin"))
        self.apt()

    def apt(self, update=0, install=0):
        self.program("apt-get", APT.format(log=self.log, bin=self.bin, have=self.have, update=update, install=install))

    def program(self, name, text):
        (self.bin / name).unlink(missing_ok=True)  # never through a link into the system
        (self.bin / name).write_text(text)
        (self.bin / name).chmod(0o755)

    def provide(self):
        self.program("hay-fork", "#!/bin/sh\n")
        self.have.touch()

    def run(self, *words, launcher=None, cwd=None, path=None):
        return subprocess.run([launcher or self.root / "hayloft", *words], cwd=cwd, text=True, capture_output=True,
                              stdin=subprocess.DEVNULL, env={"PATH": path or str(self.bin)}, check=False, timeout=60)

    def asked(self):
        return self.log.read_text().splitlines() if self.log.exists() else []


@pytest.fixture
def checkout(tmp_path):
    return Checkout(tmp_path)


def test_it_becomes_the_tool_from_anywhere_and_through_links(checkout, tmp_path):
    checkout.provide()
    (tmp_path / "link").symlink_to("a checkout/hayloft")
    (tmp_path / "far").mkdir()
    (tmp_path / "far" / "link2").symlink_to("../link")
    for launcher in (checkout.root / "hayloft", tmp_path / "link", tmp_path / "far" / "link2"):
        done = checkout.run("run", "a b", "*", launcher=launcher, cwd="/")
        assert done.returncode == 7 and done.stdout.splitlines()[1] == "['run', 'a b', '*']", done.stderr
    done = subprocess.run(["./hayloft", "list"], cwd=checkout.root, env={"PATH": str(checkout.bin)}, text=True,
                          capture_output=True, check=False)
    assert done.returncode == 7
    assert checkout.asked() == []


def test_a_python_that_lacks_the_modules_is_passed_over(checkout):
    """A python3 of another kind comes first on PATH; the distribution's has what is needed."""
    checkout.program("python3", "#!/bin/sh\nexit 1\n")
    done = checkout.run("list")
    assert done.returncode == 7, done.stderr
    assert done.stdout.splitlines()[0].startswith("/usr/bin/python3")


def test_what_is_missing_is_installed_once(checkout):
    if os.geteuid() != 0:
        pytest.skip("only root goes ahead without a terminal")
    done = checkout.run("run", "x")
    assert done.returncode == 7, done.stderr
    assert done.stdout.splitlines()[1] == "['run', 'x']", "apt's chatter stays off standard output"
    assert "missing packages: hay-tools hay-data" in done.stderr
    assert [line.split()[1] for line in checkout.asked()] == ["update", "install"]
    assert "--no-install-recommends hay-tools hay-data" in checkout.asked()[1]
    checkout.run("run", "x")
    assert len(checkout.asked()) == 2


def test_yes_is_the_launcher_s_own(checkout):
    checkout.provide()
    done = checkout.run("--yes", "run", "--yes")
    assert done.stdout.splitlines()[1] == "['run', '--yes']"


def test_only_what_the_verb_needs(checkout):
    assert checkout.run("list").returncode == 7
    assert checkout.asked() == []


def test_an_old_list_of_packages_is_no_reason_to_stop(checkout):
    if os.geteuid() != 0:
        pytest.skip("only root goes ahead without a terminal")
    checkout.apt(update=100)
    assert checkout.run("run", "x").returncode == 7


@pytest.mark.parametrize("words, install, word", [(("run", "x"), 100, "could not install"),
                                                  (("test",), 0, "still missing after installing: python3-hay")])
def test_what_cannot_be_had_is_one_plain_error(checkout, words, install, word):
    if os.geteuid() != 0:
        pytest.skip("only root goes ahead without a terminal")
    checkout.apt(install=install)
    done = checkout.run(*words)
    assert done.returncode == 4 and done.stdout == ""
    assert word in done.stderr.splitlines()[-1]


def test_without_apt_the_names_are_told(checkout):
    (checkout.bin / "apt-get").unlink()
    done = checkout.run("run", "x")
    assert done.returncode == 4 and "hay-tools" in done.stderr and done.stderr.count("\n") == 1


def test_declining_on_a_terminal(checkout):
    """With a terminal it asks, and no means no."""
    import pty
    parent, terminal = pty.openpty()
    tool = subprocess.Popen([checkout.root / "hayloft", "run", "x"], stdin=terminal, stdout=subprocess.PIPE,
                            stderr=terminal, env={"PATH": str(checkout.bin)})
    os.close(terminal)
    seen = b""
    while b"[Y/n]" not in seen:
        seen += os.read(parent, 1000)
    os.write(parent, b"n\n")
    assert tool.wait(timeout=20) == 4
    tool.stdout.close()
    os.close(parent)
    assert checkout.asked() == []


def test_an_incomplete_checkout(checkout):
    (checkout.root / "tools" / "packages.txt").unlink()
    done = checkout.run("list")
    assert done.returncode == 4 and "packages.txt" in done.stderr


def test_the_real_list_is_well_formed():
    from telemetry import doctor
    needs = doctor.needs()
    assert {need.scope for need in needs} == set(doctor.SCOPES)
    assert len({(need.scope, need.what) for need in needs}) == len(needs)
