"""What the host says of itself: cores, load, stolen time, the CPU time of threads.

Read from /proc only. A figure that cannot be had is None, never a guess.
"""

import os
import pathlib

_TICK = os.sysconf("SC_CLK_TCK")


def usable_cpus():
    """Numbers of the host CPUs that this process may run on, in order."""
    return sorted(os.sched_getaffinity(0))


def boot_id():
    try:
        return pathlib.Path("/proc/sys/kernel/random/boot_id").read_text().strip()
    except OSError:
        return "unknown"


def cpu_model():
    try:
        for line in pathlib.Path("/proc/cpuinfo").read_text().splitlines():
            if line.startswith("model name"):
                return line.partition(":")[2].strip()
    except OSError:
        pass
    return None


def load():
    try:
        return [round(value, 2) for value in os.getloadavg()]
    except OSError:
        return None


def cpu_times():
    """(stolen, all) in ticks since the host's boot, over all its CPUs; None where /proc has no such line."""
    try:
        fields = pathlib.Path("/proc/stat").read_text().split("\n", 1)[0].split()
        ticks = [int(word) for word in fields[1:9]]
    except (OSError, ValueError):
        return None
    return (ticks[7], sum(ticks)) if len(ticks) == 8 else None


def steal_share(before, after):
    """Share of the host's CPU time between two cpu_times() that a hypervisor below it took."""
    if before is None or after is None or after[1] <= before[1]:
        return None
    return round((after[0] - before[0]) / (after[1] - before[1]), 4)


def memory_available():
    """Bytes that can be had without swapping."""
    try:
        for line in pathlib.Path("/proc/meminfo").read_text().splitlines():
            if line.startswith("MemAvailable:"):
                return int(line.split()[1]) * 1024
    except (OSError, ValueError):
        pass
    return None


def thread_seconds(pid, tid):
    """(ran, waited) of one thread so far: seconds on a CPU, and seconds it was ready but given none. None once
    it has gone; waited is None where the host's kernel does not say."""
    try:
        words = pathlib.Path(f"/proc/{pid}/task/{tid}/schedstat").read_text().split()
        return int(words[0]) / 1e9, int(words[1]) / 1e9
    except (OSError, ValueError, IndexError):
        pass
    try:
        text = pathlib.Path(f"/proc/{pid}/task/{tid}/stat").read_text()
        fields = text.rpartition(")")[2].split()
        return (int(fields[11]) + int(fields[12])) / _TICK, None
    except (OSError, ValueError, IndexError):
        return None


def thread_names(pid):
    """{tid: name} of a process's threads; empty once it has gone."""
    names = {}
    try:
        for entry in os.scandir(f"/proc/{pid}/task"):
            names[int(entry.name)] = pathlib.Path(entry.path, "comm").read_text().strip()
    except (OSError, ValueError):
        pass
    return names
