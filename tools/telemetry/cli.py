"""The command line: one word a verb. Parses, calls, turns errors into one line and an exit code.

No work is done here, and nothing heavy is imported before a verb needs it: `knobs` must answer at once
even where matplotlib takes a second to load.
"""

import argparse
import os
import select
import sys

from . import ROOT, __version__, streams
from .errors import DISK_FULL, EXIT_INTERRUPTED, EXIT_MACHINE, EXIT_USAGE, HayloftError, did_you_mean

LIVE = ("auto", "web", "term", "off")


class _Parser(argparse.ArgumentParser):
    """An argument parser whose errors are one line."""

    def error(self, message):
        verb = self.prog.partition(" ")[2]
        help_line = f"./hayloft {verb} --help" if verb else "./hayloft --help"
        raise HayloftError(f"{message}; see {help_line}", EXIT_USAGE)


def _settings(args):
    from . import experiment
    settings = [experiment.parse_setting(text) for text in args.set]
    if args.pairs is not None:
        settings.append(("pairs", str(args.pairs)))
    if args.machine:
        settings.append(("machine.kind", args.machine))
    return settings


def _run(args):
    from . import run
    return run.run(args.file, out=args.out, settings=_settings(args), live=args.live, port=args.port,
                   strict=args.strict)


def _calibrate(args):
    from . import run
    return run.calibrate(args.file, out=args.out, settings=_settings(args), live=args.live, port=args.port)


def _resume(args):
    from . import run
    return run.resume(args.run, live=args.live, port=args.port, strict=args.strict)


def _boot(args):
    from . import boot
    return boot.boot(args.args, kind=args.machine, settings=args.set, check=not args.no_check, gdb=args.gdb,
                     variant=args.variant, out=args.out)


def _report(args):
    from . import run, store, verdicts
    with store.open_run(args.run, locked=True) as found:
        results = run.analyse_and_report(found.dir, rebuild=True)
        verdicts.show(found.dir, results)
    return 0


def _compare(args):
    from . import compare
    return compare.main(args.run)


def _watch(args):
    from . import watch
    return watch.main(run=args.run, args=args.args, machine=args.machine, settings=args.set, serial=args.serial,
                      port=args.port, kind="term" if args.live == "term" else "web")


def _replay(args):
    from . import replay, store
    return replay.main(boot=store.locate_boot(args.boot), speed=args.speed, port=args.port,
                       kind="term" if args.live == "term" else "web")


def _rivals(args):
    from . import rivals
    return rivals.main(tests=args.tests, against=args.against, args=args.args, cpus=args.cpus, starts=args.starts,
                       sweeps=args.sweeps, ms=args.ms, expect=args.expect, out=args.out)


def _export(args):
    from . import export
    return export.to_csv(args.run, args.out)


def _list(args):
    from . import listing
    return listing.runs()


def _knobs(args):
    from . import listing
    return listing.knobs(args.image)


def _counters(args):
    from . import listing
    return listing.counters()


def _experiments(args):
    from . import listing
    return listing.experiments()


def _doctor(args):
    from . import doctor
    return doctor.doctor(install=args.install)


def _test(args):
    """Becomes the gate: nothing of ours is left to run, and signals reach it directly."""
    words = ["--long"] if args.long else []
    sys.stdout.flush()
    os.execv(sys.executable, [sys.executable, str(ROOT / "tools" / "check.py"), *words, *args.name])


def _add_view(parser, what="live view"):
    parser.add_argument("--live", choices=LIVE, default="auto", help=f"{what} (default: %(default)s)")
    parser.add_argument("--port", type=_port, metavar="PORT", help="port of the page, on loopback (default: a free one)")


def _port(text):
    """Beyond 65535 the system would take the number's low 16 bits, and another port than was asked for."""
    if not text.isascii() or not text.isdecimal() or not 1 <= int(text) <= 65535:
        raise argparse.ArgumentTypeError(f"a port is 1..65535, not {text}")
    return int(text)


def _add_machine(parser):
    parser.add_argument("--machine", metavar="M", help="auto, kvm, tcg, icount or host")
    parser.add_argument("--set", action="append", default=[], metavar="KEY=VALUE",
                        help="overrides one setting, such as machine.cpus=4; may be repeated")


def parser():
    top = _Parser(prog="./hayloft", description="A laboratory for kernel memory allocators.",
                  epilog="Exit: 0 fine, 1 an expectation or test failed, 2 usage, bad file or refused boot, "
                         "3 boots failed, 4 the machine lacks something, 130 Ctrl-C.")
    top.add_argument("--version", action="version", version=f"hayloft {__version__}")
    top.add_argument("--yes", action="store_true", help="install what is missing without asking")
    verbs = top.add_subparsers(dest="verb", metavar="VERB", parser_class=_Parser, required=True)

    def verb(name, function, text):
        made = verbs.add_parser(name, help=text, description=text)
        made.set_defaults(function=function)
        return made

    def experiment_verb(name, function, text, **file):
        made = verb(name, function, text)
        made.add_argument("file", **file)
        made.add_argument("--pairs", type=int, metavar="N", help="boots of each arm")
        made.add_argument("--out", metavar="DIR", help="the run's folder, new or empty (default: runs/TIME-NAME)")
        _add_machine(made)
        _add_view(made)
        return made

    def add_strict(made):
        made.add_argument("--strict", action="store_true", help="an expectation of which the boots cannot tell has failed")

    made = experiment_verb("run", _run, "plan, boot, archive, analyse and report an experiment",
                           help="an experiment file, or the name of a shipped one")
    add_strict(made)

    made = verb("resume", _resume, "finish an interrupted run; archived boots stay as they are")
    made.add_argument("run", help="a run's folder or name")
    _add_view(made)
    add_strict(made)

    made = verb("boot", _boot, "one boot, its console in the terminal")
    made.add_argument("--args", default="", metavar="TEXT", help='boot arguments, such as "kbench=1 front=none"')
    made.add_argument("--no-check", action="store_true", help="hand the arguments to the kernel unseen")
    made.add_argument("--gdb", action="store_true", help="wait for a debugger and print the line to attach it")
    made.add_argument("--variant", choices=("release", "debug"), default="release", help="which build of the kernel")
    made.add_argument("--out", metavar="DIR", help="keep the boot's files there")
    _add_machine(made)

    made = verb("watch", _watch, "live plots of one boot, of a run in progress, or of a machine on a serial port")
    made.add_argument("run", nargs="?", help="a run in progress")
    made.add_argument("--args", default="", metavar="TEXT", help="boot arguments of the boot to watch")
    made.add_argument("--serial", metavar="DEVICE", help="a real machine on this serial port")
    _add_machine(made)
    _add_view(made)

    made = verb("replay", _replay, "the live plots of an archived boot")
    made.add_argument("boot", help="RUN/boots/ID or RUN/ID")
    made.add_argument("--speed", type=float, default=1.0, metavar="X", help="times real time (default: %(default)s)")
    _add_view(made)

    made = verb("report", _report, "analyse a run again from its raw bytes, without booting")
    made.add_argument("run", help="a run's folder or name")

    made = verb("compare", _compare, "archived runs, or the points of a run's axes, side by side")
    made.add_argument("run", nargs="+", help="a run's folder or name")

    experiment_verb("calibrate", _calibrate, "A/A pairs: this machine's noise for each test, for later verdicts",
                    nargs="?", default="null", help="an experiment with equal arms (default: the shipped null.toml)")

    made = verb("rivals", _rivals, "the hosted allocator beside glibc, jemalloc, mimalloc and tcmalloc, natively")
    made.add_argument("--tests", metavar="NAMES", help="only these, comma-separated, '*' matches anything (default: "
                                                       "all of tests/rivals/rivals.toml)")
    made.add_argument("--against", metavar="NAMES", help="only these rivals, comma-separated (default: all)")
    made.add_argument("--args", default="", metavar="TEXT", help="boot arguments of both of Hayloft's arms")
    made.add_argument("--cpus", type=int, metavar="N", help="threads (default: the cores there are, at most 8)")
    made.add_argument("--starts", type=int, default=6, metavar="N", help="processes of each (default: %(default)s)")
    made.add_argument("--sweeps", type=int, default=10, metavar="N", help="rounds of each process (default: %(default)s)")
    made.add_argument("--ms", type=int, default=10, metavar="N", help="length of a round (default: %(default)s)")
    made.add_argument("--expect", action="store_true", help="exit 1 if a promise in rivals.toml is missed")
    made.add_argument("--out", metavar="DIR", help="where to, new or empty (default: runs/TIME-rivals)")

    made = verb("export", _export, "tidy tables of a run")
    made.add_argument("run", help="a run's folder or name")
    made.add_argument("--to", choices=("csv",), default="csv", help="format (default: %(default)s)")
    made.add_argument("--out", metavar="DIR", help="where to (default: RUN/csv)")

    verb("list", _list, "what is archived")
    made = verb("knobs", _knobs, "what can be switched, with defaults")
    made.add_argument("--image", metavar="ELF", help="of this image (default: of this tree)")
    verb("counters", _counters, "what is measured")
    verb("experiments", _experiments, "the experiments that come with the tree")

    made = verb("doctor", _doctor, "what is missing or unusable here, and how to mend it")
    made.add_argument("--install", action="store_true", help="install what is missing with apt")

    made = verb("test", _test, "everything CI runs")
    made.add_argument("--long", action="store_true", help="also what takes hours")
    made.add_argument("name", nargs="*", help="only steps or tests of this name")
    return top, verbs


def _reader_gone():
    """Whoever read our standard output has gone (a pager that was left)."""
    poll = select.poll()
    poll.register(sys.stdout.fileno(), 0)
    return any(events & select.POLLERR for _, events in poll.poll(0))


def main(argv):
    streams.secure()
    try:
        top, verbs = parser()
        words = [word for word in argv if not word.startswith("-")]
        if words and words[0] not in verbs.choices:
            raise HayloftError(f"no verb is called '{words[0]}'{did_you_mean(words[0], verbs.choices)}; "
                               "see ./hayloft --help", EXIT_USAGE)
        args = top.parse_args(argv)
        return args.function(args) or 0
    except HayloftError as error:
        print(f"hayloft: {error}", file=sys.stderr)
        return error.exit_code
    except KeyboardInterrupt:
        print("hayloft: interrupted", file=sys.stderr)
        return EXIT_INTERRUPTED
    except BrokenPipeError:
        if not _reader_gone():
            raise
        # There is nobody to tell. Keep the interpreter from trying.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0
    except OSError as error:
        if error.filename is None and error.errno is None:
            raise
        where = f"{error.filename}: " if error.filename else ""
        print(f"hayloft: {where}{error.strerror}", file=sys.stderr)
        return EXIT_MACHINE if error.errno in DISK_FULL else EXIT_USAGE
