"""Runs an experiment: plan, build, boot pair by pair, archive, analyse, report, say.

  Session     one run folder being filled: what `run` starts and `resume` goes on with. Everything a Session
              needs is in run.json, so that a run killed at any moment can be finished by another process.

A pair that fails is booted again whole (03-A.2, 03-B.2), since a pair is meant to be neighbours in time, up
to the file's retries; failed boots stay archived. A boot that the kernel refuses is a typing error that the
host's check did not see (the run ends, exit 2) unless what it refused is the arm's own and legal in its
image: then only this machine refuses it, and the arm is left out.

Nothing here starts a process but through machine/, build.py and the live view; all of them end with it.
"""

import contextlib
import dataclasses
import pathlib
import secrets
import shutil
import sys
import time

from . import ROOT, __version__, build, checks, defs, experiment as experiments, image, machine, outcome, plan, progress, store, streams
from . import interrupt
from .errors import EXIT_BOOTS, EXIT_EXPECTATION, EXIT_INTERRUPTED, EXIT_MACHINE, EXIT_USAGE, HayloftError, cannot_write
from .interrupt import stop_by_signal
from .machine import facts, qemu

GIVE_UP_PAIRS = 2  # pairs in a row that could not be completed, after which the rest is not tried
VOID_WAITS = (2.0, 8.0)  # seconds before a pair is booted again whose CPUs the host had no time for
ICOUNT_OPERATIONS = 20000  # of a round under icount, where the length of a round means nothing
SHARED_LINE = "telemetry.port=com1"
ROUND_LENGTH = "kbench.ms="
DEADLINE_SHARE = 0.9  # of the machine's timeout: so the kernel ends itself, and says why, before it is killed


class Refused(HayloftError):
    """The kernel refused what the host found legal, and not only an arm's own arguments."""


NONCE = "nonce="
NONCE_LENGTH = len(f" {NONCE}") + 16


def added_arguments(words, spec, knobs):
    """What the tool adds to an argument line, each only if the image knows it and the line does not say."""
    named = {word.partition("=")[0] for word in words.split()}
    # no timeout, no deadline: 0 means never to the kernel too
    wanted = {"deadline": str(max(1, int(spec.timeout * 1000 * DEADLINE_SHARE)) if spec.timeout else 0)}
    if spec.over_committed:
        wanted["overcommit"] = "1"
    if spec.kind == "icount":
        wanted["kbench.ops"] = str(ICOUNT_OPERATIONS)
    return [f"{name}={value}" for name, value in wanted.items() if name in knobs and name not in named]


def argument_line(words, spec, knobs):
    """The whole argument line for a machine. icount counts a fixed number of operations, so there a round's
    length gives way."""
    if spec.kind == "icount":
        words = " ".join(word for word in words.split() if not word.startswith(ROUND_LENGTH))
    return " ".join([*words.split(), *added_arguments(words, spec, knobs)])


def echo_mismatch(arguments, hello, knobs):
    """What the kernel says it runs with and what it was sent must agree: a text where not, else ''."""
    effective = (hello or {}).get("knobs") or {}
    for word in arguments.split():
        name, _, value = word.partition("=")
        if name not in effective:
            return f"the kernel does not echo {name}"
        same = knobs[name].same(value, effective[name]) if name in knobs else value == effective[name]
        if not same:
            return f"sent {word}, the kernel runs with {name}={effective[name]}"
    return ""


# -- setting a run up -----------------------------------------------------------------------------------------

def _precheck(experiment, spec, cpus):
    """Everything about the arms that can be checked before anything exists: arms of this tree against its
    own list, arms with an image of their own against that image."""
    tree = (ROOT / "base" / "knobs.def").read_text()
    known = {}
    for arm in experiment.arms:
        if arm.image:
            path = experiment.path.parent / arm.image
            if not path.is_file():
                experiment.fail(("arms", arm.name), f"there is no image {path}")
            known[arm.name] = image.read_knobs(path)
        else:
            known[arm.name] = defs.parse_knobs(tree)
        if arm.rev:
            try:
                build.commit_of(arm.rev)
            except HayloftError as error:
                experiment.fail(("arms", arm.name), str(error))
    own = [arm for arm in experiment.arms if not arm.rev]  # a revision's list is known once it is built
    experiments.check_arms(dataclasses.replace(experiment, arms=own), known, spec.hosted, cpus)


def _specs(experiment):
    """The resolved Machine of every axis point."""
    specs = []
    for point in experiment.points:
        try:
            specs.append(machine.resolve(experiment.machine_at(point)))
        except HayloftError as error:
            if str(error).startswith("machine.") and error.exit_code == EXIT_USAGE:
                key, _, what = str(error).partition(": ")
                axis = ("axes", key) if key in point else tuple(key.split("."))
                experiment.fail(axis, what)
            raise
    return specs


def _build_images(run, experiment, hosted):
    """Builds and archives every image; returns ({arm: checksum}, {arm: Knobs}, {arm: names of its tests})."""
    checksums, knobs, tests, built = {}, {}, {}, {}
    log = run.dir / "build.log"
    for arm in experiment.arms:
        key = (arm.rev, arm.image)
        if key not in built:
            if arm.image:
                elf = experiment.path.parent / arm.image
            elif arm.rev:
                elf = build.build_rev(arm.rev, hosted, log)
            else:
                elf = build.build(hosted, log)
            checksum = image.sha256(elf)
            run.add_image(elf, checksum, arm.name if arm.other_build else "")
            built[key] = (checksum, image.read_knobs(elf), image.read_tests(elf))
        checksums[arm.name], knobs[arm.name], tests[arm.name] = built[key]
    log.unlink(missing_ok=True)  # kept only where the build failed
    return checksums, knobs, tests


def start(path, out=None, settings=(), alike=False):
    """Checks an experiment file, creates its run and builds; returns a Session ready to boot. alike: its arms must be.
    What is wrong with the file leaves nothing behind, even where only the built image could tell."""
    experiment = experiments.load(path, settings)
    if alike and len({(arm.told, arm.rev, arm.image) for arm in experiment.arms}) > 1:
        raise HayloftError(f"{path}: its arms differ; calibrate wants arms with the same arguments, as in null.toml")
    if out is not None:
        store.check_new(out)
    specs = _specs(experiment)
    _precheck(experiment, specs[0], min(spec.cpus for spec in specs))
    if specs[0].kind == "icount":
        experiment.pairs, experiment.looks = 1, None  # every boot of an arm would be the same boot
    seed = secrets.randbits(32)
    arms = {arm.name: arm.told for arm in experiment.arms}
    info = {
        "schema": store.SCHEMA, "experiment": experiment.name, "title": experiment.title,
        "file": str(experiment.path.resolve()), "created": machine.now(), "git": build.git_state(), "tool": __version__, "qemu": qemu.version(),
        "host": {"cpu": facts.cpu_model(), "cores": len(facts.usable_cpus()), "load": facts.load()},
        "machine": specs[0].describe(), "machines": [spec.describe() for spec in specs],
        "arms": arms, "reference": next(iter(arms)), "points": experiment.points, "pairs": experiment.pairs,
        "looks": experiment.looks, "order_kind": experiment.order, "scheme": experiment.exchange, "order": [], "retries": experiment.retries,
        "minimum_effect": experiment.minimum_effect, "pace": experiment.pace, "published": experiment.published, "images": {},
        "arm_images": {}, "seed": seed, "settings": dict(settings), "skipped": [],
        "warnings": _warnings(experiment, specs, arms), "state": "running"}
    run = store.create(out, experiment.name, experiment.source, info)
    try:
        return _prepare(run, experiment, specs, seed)
    except BaseException as error:
        mistake = isinstance(error, HayloftError) and error.exit_code == EXIT_USAGE
        if mistake and not (run.dir / "build.log").exists():
            shutil.rmtree(run.dir, ignore_errors=True)
            run.close()
            raise
        save_interrupted(run)
        run.close()
        if isinstance(error, KeyboardInterrupt):
            raise HayloftError(f"interrupted; go on with ./hayloft resume {run.dir}", EXIT_INTERRUPTED) from error
        raise


def _warnings(experiment, specs, arms):
    found = [] if specs[0].kind == "icount" else plan.warnings(arms, experiment.pairs, experiment.order)
    if any(spec.over_committed for spec in specs):
        found.append(f"over-committed: more CPUs than the host's {len(facts.usable_cpus())}")
    return found


def _prepare(run, experiment, specs, seed):
    from . import calibrate as noise
    hosted = specs[0].hosted
    checksums, knobs, tests = _build_images(run, experiment, hosted)
    left_out = experiments.check_arms(experiment, knobs, hosted, min(spec.cpus for spec in specs))
    checks.check(experiment, tests)
    for name, refusals in left_out.items():
        run.info["skipped"].append({"name": f"arm {name}", "reason": "; ".join(map(str, refusals))})
        del run.info["arms"][name]
    if len(run.info["arms"]) < 2:
        reasons = "; ".join(f"{entry['name']}: {entry['reason']}" for entry in run.info["skipped"])
        raise HayloftError(f"fewer than two arms can run on machine {specs[0].kind}: {reasons}", EXIT_MACHINE)
    run.info["reference"] = next(iter(run.info["arms"]))
    kept = [arm for arm in experiment.arms if arm.name in run.info["arms"]]
    by_name = {arm.name: arm for arm in kept}
    order = []
    for slot in plan.draw([arm.name for arm in kept], experiment.points, experiment.pairs, experiment.order, seed,
                          experiment.looks):
        arm, spec = by_name[slot.arm], specs[slot.point_index]
        words = experiment.line_at(arm, slot.point)
        line = argument_line(words, spec, knobs[arm.name])
        if len(line) > qemu.LONGEST_ARGUMENTS - NONCE_LENGTH:
            experiment.fail(("arms", arm.name), f"{len(line)} characters of arguments; at most "
                            f"{qemu.LONGEST_ARGUMENTS - NONCE_LENGTH}")
        order.append({**slot.describe(), "point_index": slot.point_index, "args": line,
                      **({"live": arm.live} if arm.live else {})})
    run.info["arm_images"] = {name: checksums[name] for name in by_name}
    if len(set(run.info["arm_images"].values())) > 1:
        run.info["warnings"].append("images differ: code layout differs too, so a difference need not be the arm's doing")
    run.info["order"] = order
    run.save()
    noise.keep_copy(run.dir, run.info)  # a report made later must judge by what was known now
    return Session(run)


# -- booting ----------------------------------------------------------------------------------------------------

class Session:
    """A locked run folder and what it takes to fill it."""

    def __init__(self, run):
        self.run, self.info = run, run.info
        self.specs = [machine.Machine(m["kind"], m["requested"], m["cpus"], m["memory"], m["timeout"],
                                      m["topology"] or "") for m in self.info["machines"]]
        self.images, self.knobs = {}, {}
        for name, checksum in self.info["arm_images"].items():
            elf = run.dir / self.info["images"][checksum]
            if image.sha256(elf) != checksum:
                raise HayloftError(f"{elf}: is not the image that this run booted; restore it, or start a new run")
            self.images[name] = build.open_image(elf, self.specs[0].hosted, checksum)
            self.knobs[name] = image.read_knobs(elf)
        self.incomplete = []  # ids of pairs that could not be completed

    def groups(self):
        """The planned pairs: lists of order entries, one of each arm still in the run."""
        found = {}
        for entry in self.info["order"]:
            found.setdefault((entry["pair"], entry["point_index"]), []).append(entry)
        return list(found.values())

    def boot_all(self, show):
        """Boots what is still missing. Returns when all pairs are done, decided, or given up."""
        looks = self.info.get("looks") or []
        done = self.run.boots()
        show.begin(self.info["arms"], *self.progress(done))
        row = 0  # pairs in a row that could not be completed
        last_pair = 0
        for group in self.groups():
            if group[0]["pair"] != last_pair and last_pair in looks[:-1] and self.decided(show):
                return
            last_pair = group[0]["pair"]
            if self.next_attempt(group, done)[1]:
                continue
            if self.boot_pair(group, done, show):
                row = 0
                continue
            row += 1
            self.incomplete.append(group[0]["pair"])
            if row >= GIVE_UP_PAIRS:
                show.say(f"{row} pairs in a row could not be completed: the rest is not tried{self.advice(done)}")
                return

    def advice(self, done):
        """What helps where every failed boot was void because its CPUs did not run in parallel."""
        failed = {boot["outcome"] for boot in done.values()} - {outcome.OK}
        if failed != {outcome.NOT_PARALLEL}:
            return ""
        return (" (the host's cores have other work: end it and ./hayloft resume, or take fewer CPUs with"
                " --set machine.cpus=1)")

    @staticmethod
    def identity(entry, attempt):
        return entry["id"] if attempt == 1 else f"{entry['id']}.{attempt}"

    def outcomes(self, group, attempt, done):
        """What became of one attempt at a pair: the outcomes of its arms, None for one that was not booted."""
        return [done.get(self.identity(entry, attempt), {}).get("outcome")
                for entry in group if entry["arm"] in self.info["arms"]]

    def next_attempt(self, group, done):
        """The attempt to go on with: the first in which nothing has failed. (number, complete)"""
        attempt = 1
        while any(found not in (None, outcome.OK) for found in self.outcomes(group, attempt, done)):
            attempt += 1
        return attempt, None not in self.outcomes(group, attempt, done)

    def progress(self, done):
        """(boots planned, boots that stand): a boot stands until its pair fails."""
        stand = 0
        for group in self.groups():
            stand += self.outcomes(group, self.next_attempt(group, done)[0], done).count(outcome.OK)
        return len(self.info["order"]), stand

    def boot_pair(self, group, done, show):
        """Boots one pair, again where a boot fails; True once every arm booted well in one attempt. Attempts
        of earlier processes stay as they are and do not count as tries of this one."""
        last = outcome.OK
        for tried in range(self.info["retries"] + 1):
            attempt, _ = self.next_attempt(group, done)
            if tried and last == outcome.NOT_PARALLEL:  # a busy host is seldom busy for long
                time.sleep(VOID_WAITS[min(tried, len(VOID_WAITS)) - 1])
            for entry in group:
                name = self.identity(entry, attempt)
                if entry["arm"] in self.info["arms"] and name not in done:
                    self.boot(entry, attempt, show, done)
                    last = done[name]["outcome"]
                    if last != outcome.OK and entry["arm"] in self.info["arms"]:
                        break
            if self.next_attempt(group, done)[1]:
                return True
        return False

    def boot(self, entry, attempt, show, done):
        """One boot from start to archive; its boot.json goes into done."""
        interrupt.check()
        name, arm = self.identity(entry, attempt), entry["arm"]
        spec = self.specs[entry["point_index"]]
        folder = self.run.start_boot(name)
        show.started(name, arm)
        arguments, seen, view = self.numbered(entry, name), {"view": "off"}, None
        try:
            if entry.get("live") == "web":
                from . import live
                view = live.Watched(self.run.dir, name)
            running = machine.start(spec, self.images[arm], arguments, folder)
            ended = running.wait(show.tick)
            if view is not None:
                seen = view.cost()
            result, verdict = judge(folder, ended, arguments, self.knobs[arm])
        except KeyboardInterrupt:
            self.archive(entry, attempt, None, (outcome.INCOMPLETE, "interrupted by the user"), None)
            raise
        except OSError as error:
            raise cannot_write(folder, error) from error
        finally:
            if view is not None:
                view.end()
        boot = self.archive(entry, attempt, ended, verdict, result, seen)
        done[boot["id"]] = boot
        if boot["outcome"] == outcome.REFUSED:
            self.refused(entry, result, boot, show)
        show.ended(boot, result, *self.progress(done))

    def numbered(self, entry, name):
        """The argument line of one boot, with the number that tells its bytes from every other boot's. The run has
        it before the boot begins: nothing that lies in the boot's folder later can then pass for it by itself."""
        if "nonce" not in self.knobs[entry["arm"]] or f" {NONCE}" in f" {entry['args']}":
            return entry["args"]
        nonce = self.info.setdefault("nonces", {})[name] = secrets.token_hex(8)
        self.run.save()
        return f"{entry['args']} {NONCE}{nonce}".strip()

    def archive(self, entry, attempt, ended, verdict, result, seen=None):
        """seen: what the arm's own live view was, where arms have one."""
        nonce = self.info.get("nonces", {}).get(self.identity(entry, attempt))
        spec = self.specs[entry["point_index"]]
        boot = {
            "id": self.identity(entry, attempt), "arm": entry["arm"], "point": entry["point"],
            "pair": entry["pair"], "slot": entry["slot"], "attempt": attempt,
            "args": " ".join([entry["args"], *([NONCE + nonce] if nonce else [])]), "nonce": nonce,
            "capture": (result or {}).get("capture"),
            "machine": spec.describe(), "machine_kind": spec.kind,
            "knobs": ((result or {}).get("hello") or {}).get("knobs") or {},
            "started": ended.started if ended else None, "ended": ended.ended if ended else machine.now(),
            "seconds": ended.seconds if ended else 0.0, "exit_status": ended.exit_status if ended else None,
            "outcome": verdict[0], "reason": verdict[1],
            "lost": (result or {}).get("lost") or 0, "damaged": (result or {}).get("damaged") or 0,
            "host": ended.host if ended else {"load": facts.load(), "steal": None},
            "vcpu_seconds": ended.vcpu_seconds if ended else [], "vcpu_wait_seconds": ended.vcpu_wait_seconds if ended else [],
            "pinned": ended.pinned if ended else [],
            "image": self.info["arm_images"][entry["arm"]]}
        if "live" in entry:
            boot["live"] = seen or {"view": entry["live"]}
        if result is not None:
            result.update({key: boot[key] for key in ("id", "arm", "point", "pair")})
        self.run.end_boot(boot["id"], boot, result)
        return boot

    def refused(self, entry, result, boot, show):
        """A refusal of the kernel's: leaves the arm out if only this machine refuses it, else ends the run."""
        arm = entry["arm"]
        own = {word.partition("=")[0] for word in self.info["arms"][arm].split()}
        named = [argument.partition("=")[0] for argument, _, _ in (result or {}).get("refused") or []]
        if not named or not all(name in own and name in self.knobs[arm] for name in named):
            raise Refused(f"boot {boot['id']} was refused: {boot['reason']}; the run is in {self.run.dir}")
        self.info["skipped"].append({"name": f"arm {arm}", "reason": boot["reason"]})
        del self.info["arms"][arm]
        self.info["order"] = [e for e in self.info["order"] if e["arm"] != arm]
        if len(self.info["arms"]) < 2:
            raise HayloftError(f"fewer than two arms can run on this machine: arm {arm}: {boot['reason']}",
                               EXIT_MACHINE)
        if self.info["reference"] == arm:
            self.info["reference"] = next(iter(self.info["arms"]))
        self.run.save()
        show.say(f"arm {arm} is left out: {boot['reason']}")

    def decided(self, show):
        """At a planned look: True if no verdict is open, so that the remaining pairs need not be booted."""
        from . import analyse
        results = analyse.analyse_run(self.run.dir)
        verdicts = [versus.get("verdict") for test in results["tests"] for versus in test["versus"].values()]
        if not verdicts or any(verdict == "undecided" for verdict in verdicts):
            return False
        show.say("planned look: every test is decided; the remaining pairs are not booted")
        return True

    def close_unfinished(self):
        """Gives boots that an earlier process left unfinished their boot.json; they stay as they are otherwise."""
        by_id = {entry["id"]: entry for entry in self.info["order"]}
        for name in self.run.unfinished():
            attempt = plan.attempt_of(name)
            entry = by_id.get(name.rsplit(".", 1)[0] if attempt > 1 else name)
            if entry is None:
                raise HayloftError(f"{self.run.boots_dir / name}: no planned boot is called that; move it away")
            result = digest_or_none(self.run.boots_dir / name)
            self.archive(entry, attempt, None, (outcome.INCOMPLETE, "the tool was killed during this boot"), result)


def digest_or_none(folder, shared=None):
    """result.json's content, or None where the capture cannot even be opened. shared: text on the same line."""
    from . import digest
    try:
        return digest.digest_boot(folder, shared_line=shared)
    except HayloftError:
        return None


def _console(folder):
    try:
        return (folder / "console.log").read_text(errors="replace")
    except OSError:
        return ""


def judge(folder, ended, arguments, knobs):
    """(result, (outcome, reason)) of a boot that has ended."""
    shared = SHARED_LINE in arguments.split()
    if shared:  # the stream came with the text: where readers look for it is the same file in any case
        shutil.copyfile(folder / "console.log", folder / "telemetry.bin")
    result = digest_or_none(folder, shared)
    verdict = outcome.classify(ended.exit_status, ended.timed_out, result, _console(folder))
    verdict = outcome.starved(verdict, ended.vcpu_seconds, ended.vcpu_wait_seconds, ended.silent_seconds,
                              ((result or {}).get("hello") or {}).get("knobs"))
    if verdict[0] == outcome.FAILED_START:
        verdict = (verdict[0], f"{verdict[1]}: {qemu.start_failure(folder)}")
    if verdict[0] == outcome.OK:
        mismatch = echo_mismatch(arguments, result.get("hello"), knobs)
        if mismatch:
            verdict = (outcome.REFUSED, mismatch)
    return result, verdict


# -- the whole ----------------------------------------------------------------------------------------------------

def run(path, out=None, settings=(), live="auto", port=None, strict=False):
    """The verb `run`. Returns its exit code."""
    with stop_by_signal():
        path = experiments.find(path)
        session = start(path, out, settings)
        return finish(session, live, port, strict)


def calibrate(path, out=None, settings=(), live="auto", port=None):
    """The verb `calibrate`: an A/A run, then what its alike boots differ by, kept for later verdicts here."""
    from . import calibrate as noise
    noise.default_path()  # where it would be kept: known before anything is measured
    with stop_by_signal():
        session = start(experiments.find(path), out, settings, alike=True)
        code = finish(session, live, port)
    if code in (0, EXIT_EXPECTATION):
        results = store.read_json(session.run.dir / "results.json", "analyse the run again")
        for test, found in noise.learn(session.info, results).items():
            print(f"noise of {test}: {100 * found['noise']:.1f} % over {found['boots']} boots")
        print(f"kept in {noise.default_path()}")
    return code


def resume(name, live="auto", port=None, strict=False):
    """The verb `resume`: goes on with an interrupted run. Returns its exit code."""
    with stop_by_signal():
        run_folder = store.open_run(name, locked=True)
        try:
            session = Session(run_folder) if run_folder.info["order"] else prepare_again(run_folder)
            session.close_unfinished()
        except BaseException:
            run_folder.close()
            raise
        run_folder.info["state"] = "running"
        run_folder.save()
        return finish(session, live, port, strict)


def prepare_again(run_folder):
    """A Session of a run that was stopped before its order was drawn: from its own copy of the experiment."""
    info = run_folder.info
    path = pathlib.Path(info.get("file") or run_folder.dir / "experiment.toml")
    text = (run_folder.dir / "experiment.toml").read_text(encoding="utf-8")
    experiment = experiments.parse(text, path, list(info.get("settings", {}).items()))
    specs = _specs(experiment)
    if specs[0].kind == "icount":
        experiment.pairs, experiment.looks = 1, None
    info["arms"] = {arm.name: arm.told for arm in experiment.arms}
    info["skipped"] = []
    info["machine"], info["machines"] = specs[0].describe(), [spec.describe() for spec in specs]
    return _prepare(run_folder, experiment, specs, info["seed"])


def finish(session, live, port, strict=False):
    """Boots what is missing, then analyses, reports and says. Closes the run in any case."""
    run_folder, view = session.run, None
    kind = choose_view(live)
    streams.outlive()
    if any("live" in entry for entry in session.info["order"]):
        kind = "off"  # each arm has the view that its file gives it, and nobody else looks
    show = progress.make(quiet=kind == "term")
    try:
        show.say(f"run: {run_folder.dir}")
        for text in session.info["warnings"]:
            show.say(f"warning: {text}")
        for entry in session.info["skipped"]:
            show.say(f"left out: {entry['name']}: {entry['reason']}")
        view = open_view(run_folder.dir, kind, port, show)
        session.boot_all(show)
        show.close()
        interrupt.check()
        session.info["state"] = "done"
        run_folder.save()
        results = analyse_and_report(run_folder.dir)
    except KeyboardInterrupt:
        interrupted(session, show)
        return EXIT_INTERRUPTED
    except BaseException:
        show.close()
        save_interrupted(run_folder)
        raise
    finally:
        show.close()
        if view is not None:
            close_view(view)
        run_folder.close()
    from . import verdicts
    verdicts.show(run_folder.dir, results)
    return exit_code(session, results, strict)


def save_interrupted(run_folder):
    """Notes the early end where that can still be written: what led to it matters more."""
    run_folder.info["state"] = "interrupted"
    with contextlib.suppress(HayloftError):
        run_folder.save()


def interrupted(session, show):
    show.close()
    save_interrupted(session.run)
    show.say(f"interrupted; go on with ./hayloft resume {session.run.dir}")


def exit_code(session, results, strict=False):
    """strict: what cannot be told has not held."""
    if session.incomplete:
        return EXIT_BOOTS
    if any(entry["held"] is False or strict and not entry["held"] for entry in results["expectations"]):
        return EXIT_EXPECTATION
    return 0


def analyse_and_report(folder, rebuild=False):
    """results.json and the report of a run."""
    from . import analyse, report
    if rebuild:
        _restore_results(folder)
    results = analyse.analyse_run(folder, rebuild=rebuild)
    store.write_json(folder / "results.json", results)
    report.write_report(folder, results)
    return results


def _restore_results(folder):
    """Gives boots whose result.json was lost a new one."""
    for boot_dir in sorted(path.parent for path in folder.glob("boots/*/boot.json")):
        if not (boot_dir / "result.json").exists():
            result = digest_or_none(boot_dir)
            if result is not None:
                store.write_json(boot_dir / "result.json", result)


def choose_view(live):
    """auto: no window pops up by itself; the page costs nothing until it is opened, but only a person opens it."""
    if live == "auto":
        return "web" if sys.stdout.isatty() else "off"
    return live


def open_view(folder, kind, port, show):
    """Starts the live view, a process of its own; a view that cannot start does not stop a run."""
    if kind == "off":
        return None
    from . import live
    try:
        view = live.start_view(folder, kind, port)
    except HayloftError as error:
        show.say(f"no live view: {error}")
        return None
    if getattr(view, "address", None):
        show.say(f"live view: {view.address}")
    return view


def close_view(view):
    from .machine import child
    child.end(view, grace=5.0)  # it sends its last picture, with where the report is
