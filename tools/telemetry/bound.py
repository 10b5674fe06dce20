"""Whether what lies in a boot's folder belongs together: the folder, the run's plan, boot.json and the bytes.

Archives are copied, moved and mended by hand, and a boot's bytes under another boot's name are figures of the wrong
arm. So each boot is asked, whenever its run is read, whether it is the one it is filed as:

  folder   boot.json names the folder that it lies in, and the run planned such a boot of that arm, pair and point
  image    boot.json names the image that the run booted for that arm
  nonce    a number drawn for this one boot: run.json has it from before the boot, boot.json has it, and the kernel
           was given it and says so in hello. Runs from before nonces have none
  args     the argument line that boot.json says was given is the one that hello says was taken
  bytes    no other folder holds the same ones; of several, the one whose boot.json knew their check sum has its own

Hello may echo a long line cut short (kernels before docs/PROTOCOL.md's parts): then it must be the beginning.

Pure: it is given what was read. A boot that fails is left out by the reader (analyse.py), with the reason.
"""

from __future__ import annotations

from .outcome import OK

ECHO_LEAST = 2900  # characters from which on an echo may have been cut


def faults(run: dict, boots: dict[str, tuple[dict, dict]]) -> dict[str, str]:
    """{folder name: what does not fit} of those that are not their own; boots: boot.json and digest, by folder name."""
    planned = {entry["id"]: entry for entry in run.get("order") or [] if isinstance(entry, dict) and "id" in entry}
    found = {}
    for name, (about, facts) in boots.items():
        wrong = _folder(name, about, planned, run) or _bytes(name, about, facts, run)
        if wrong:
            found[name] = wrong
    return found | _twice(run, boots, found)


def one(run: dict, name: str, about: dict, facts: dict) -> str:
    """The same of one boot by itself, '' if all fits."""
    return faults(run, {name: (about, facts)}).get(name, "")


def _folder(name: str, about: dict, planned: dict, run: dict) -> str:
    if about.get("id") not in (None, name):
        return f"its boot.json is that of boot {about['id']}"
    if about.get("outcome") != OK or not planned:
        return ""
    entry = planned.get(name.split(".")[0])
    if entry is None:
        return "no such boot was planned"
    for key in ("arm", "pair", "point"):
        if key in about and about[key] != entry.get(key):
            return f"its boot.json says {key} {about[key]!r}, the run planned {entry.get(key)!r}"
    image = (run.get("arm_images") or {}).get(about.get("arm"))
    if image and about.get("image") not in (None, image):
        return "its boot.json names another image than the run booted for its arm"
    return ""


def _bytes(name: str, about: dict, facts: dict, run: dict) -> str:
    hello = facts.get("hello")
    known = [nonce for nonce in ((run.get("nonces") or {}).get(name), about.get("nonce")) if nonce]
    if len(set(known)) > 1:
        return f"its boot.json is of another boot: nonce {known[1]}, the run drew {known[0]}"
    if not hello:
        return "its bytes hold no hello, so nothing says whose they are" if about.get("outcome") == OK else ""
    told = (hello.get("knobs") or {}).get("nonce")
    if known and told != known[0]:
        return f"its bytes are of another boot: nonce {told or 'none'}, not {known[0]}"
    return _arguments(about.get("args"), hello.get("args"))


def _arguments(sent: str | None, taken: str | None) -> str:
    if sent is None or taken is None:
        return ""
    sent, taken = " ".join(sent.split()), " ".join(taken.split())
    if sent == taken or len(taken) >= ECHO_LEAST and sent.startswith(taken):
        return ""
    odd = [word for word in taken.split() if word not in sent.split()] or [
        f"no {word}" for word in sent.split() if word not in taken.split()]
    return f"its bytes are of another boot: they were given {', '.join(odd[:3]) or 'the same in another order'}"


def _twice(run: dict, boots: dict, found: dict) -> dict[str, str]:
    """Of boots with the same bytes none can be told from the others, unless boot.json knew what its own were."""
    alike = (run.get("machine") or {}).get("kind") == "icount"  # there every boot of an arm is the same one
    same: dict[str, list[str]] = {}
    for name, (about, facts) in boots.items():
        capture = facts.get("capture") or {}
        if capture.get("bytes") and not (alike and not about.get("nonce")) and name not in found:
            same.setdefault(capture["sha256"], []).append(name)
    out = {}
    for checksum, names in same.items():
        if len(names) < 2:
            continue
        own = [name for name in names if (boots[name][0].get("capture") or {}).get("sha256") == checksum]
        for name in names:
            if own != [name]:
                other = next(one for one in names if one != name)
                out[name] = f"the same bytes as boot {own[0] if len(own) == 1 else other}: one boot, filed twice"
    return out


def changed(boots: dict[str, tuple[dict, dict]]) -> list[str]:
    """Folders whose bytes are no longer those that were archived with boot.json."""
    return [name for name, (about, facts) in boots.items()
            if (about.get("capture") or {}).get("sha256") not in (None, (facts.get("capture") or {}).get("sha256"))]
