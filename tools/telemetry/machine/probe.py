"""Does KVM work here? Found out by booting a guest, since a /dev/kvm that opens may still emulate.

The guest is a 64 KiB ROM whose reset vector leads to a loop of a million steps and then to the debug-exit
port. Real hardware virtualisation does that in a millisecond; a KVM that emulates each instruction (seen
at 11,500 cycles a loop) does not end within the limit, and one that cannot run a CPU ends otherwise. The
answer is kept for the host's boot, beside QEMU's version, in the user's cache folder.
"""

import json
import os
import pathlib
import subprocess

from . import child, facts, qemu

LIMIT_SECONDS = 2.0
_ROM_BYTES = 65536
_EXIT_CODE = 0x10  # ends QEMU with 2 * 16 + 1

#   mov ecx, 100000h    66 b9 imm32
#   dec ecx             66 49        <- loop
#   jnz loop            75 fc
#   mov dx, 0f4h        ba imm16
#   mov al, 10h         b0 imm8
#   out dx, al          ee
#   hlt                 f4
_GUEST = bytes.fromhex("66b900001000" "6649" "75fc" "baf400" "b010" "ee" "f4")
_RESET = bytes.fromhex("ea000000f0")  # jmp f000:0000, at the reset vector


def rom():
    image = bytearray(b"\xf4" * _ROM_BYTES)
    image[:len(_GUEST)] = _GUEST
    image[0xfff0:0xfff0 + len(_RESET)] = _RESET
    return bytes(image)


def try_boot(accelerator, limit=LIMIT_SECONDS):
    """(works, reason) of the tiny guest under these accelerator options. Main thread."""
    rom_fd = os.memfd_create("probe")
    try:
        os.write(rom_fd, rom())
        argv = [qemu.program(), "-machine", "pc", *accelerator, "-m", "16", "-nodefaults", "-display",
                "none", "-no-reboot", "-no-user-config", "-bios", f"/dev/fd/{rom_fd}",
                "-device", qemu.DEBUG_EXIT]
        process = child.start(argv, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, pass_fds=[rom_fd])
    finally:
        os.close(rom_fd)
    try:
        _, said = process.communicate(timeout=limit)
    except subprocess.TimeoutExpired:
        return False, f"a million loop steps take over {limit:g} s: it emulates"
    finally:
        child.end(process)
        if process.stderr:
            process.stderr.close()
    if process.returncode == 2 * _EXIT_CODE + 1:
        return True, "the probe guest ran"
    last = said.decode(errors="replace").strip().splitlines()
    return False, last[-1][:160] if last else f"QEMU ended with {process.returncode}"


def cache_file():
    root = os.environ.get("XDG_CACHE_HOME") or os.path.join(os.path.expanduser("~"), ".cache")
    return pathlib.Path(root) / "hayloft" / "kvm.json"


def kvm(fresh=False):
    """(works, reason), from the cache where it is of this boot of the host. Main thread."""
    if not os.path.exists("/dev/kvm"):
        return False, "there is no /dev/kvm"
    if not os.access("/dev/kvm", os.R_OK | os.W_OK):
        return False, "/dev/kvm may not be opened by this user (join group kvm)"
    key = f"{facts.boot_id()} {qemu.version()}"
    path = cache_file()
    try:
        known = json.loads(path.read_text())
        if not fresh and known["key"] == key:
            return bool(known["works"]), str(known["reason"])
    except (OSError, ValueError, KeyError, TypeError):
        pass
    works, reason = try_boot(qemu.accelerator("kvm"))
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        aside = path.with_name(f"{path.name}.{os.getpid()}")
        aside.write_text(json.dumps({"key": key, "works": works, "reason": reason}))
        os.replace(aside, path)
    except OSError:
        pass  # no cache: the next run probes again
    return works, reason
