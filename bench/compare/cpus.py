"""How many threads this process may use: CPUs of its affinity mask, bounded by the quota of its control groups."""
import math
import os
import pathlib


def _read(path):
    try:
        return path.read_text()
    except OSError:
        return ""


def _mount(mountinfo, controller):
    """(root, mount point) of a v1 controller, or of the unified hierarchy for ''."""
    for line in mountinfo.splitlines():
        left, dash, right = line.partition(" - ")
        left, right = left.split(), right.split()
        if dash and len(left) >= 5 and len(right) >= 3:
            if right[0] == "cgroup2" if not controller else right[0] == "cgroup" and controller in right[2].split(","):
                return left[3], left[4]
    return None


def _group(groups, controller):
    """Path of a controller's group in /proc/self/cgroup; of the unified hierarchy for ''."""
    for line in groups.splitlines():
        parts = line.split(":", 2)
        if len(parts) == 3 and controller in parts[1].split(","):
            return parts[2]
    return None


def _quota(folder, controller):
    """CPUs' worth of time that one group allows; 0: no limit."""
    if controller:
        words = [_read(folder / "cpu.cfs_quota_us").strip(), _read(folder / "cpu.cfs_period_us").strip()]
    else:
        words = _read(folder / "cpu.max").split()
    return int(words[0]) / int(words[1]) if len(words) == 2 and all(w.isdigit() and int(w) > 0 for w in words) else 0.0


def cpu_quota(root="/"):
    """The smallest quota of this process's group and its parents, in CPUs; 0: none. As src/base/cgroup_limits.cpp has it."""
    root = pathlib.Path(root)
    groups, mounts = _read(root / "proc/self/cgroup"), _read(root / "proc/self/mountinfo")
    found = []
    for controller in ("", "cpu"):
        path, mount = _group(groups, controller), _mount(mounts, controller)
        if path is None or mount is None:
            continue
        point = root / mount[1].lstrip("/")
        # In a container without a cgroup namespace the path is the host's, and the mount shows only our part.
        inside = "" if "/.." in path else path.removeprefix(mount[0]).strip("/")
        folder = point / inside
        found += [_quota(each, controller) for each in (folder, *folder.parents) if each == point or point in each.parents]
    return min((quota for quota in found if quota), default=0.0)


def usable_threads(cpus, quota):
    """quota: CPUs' worth of time; 0: no limit."""
    return min(cpus, max(1, math.floor(quota))) if quota else cpus


QUOTA = cpu_quota()
THREADS = usable_threads(len(os.sched_getaffinity(0)), QUOTA)
