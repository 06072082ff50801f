"""What memory costs on this machine at this moment: pages of files that left the cache, and new anonymous memory, which a
virtual machine may have to ask its host for page by page (free page reporting, balloons)."""
import ctypes
import mmap
import os
import pathlib
import threading
import time

LIBC = ctypes.CDLL(None, use_errno=True)
# Counters of /proc/vmstat that tell a disturbed load: reads from disk, pages evicted and read again, huge pages not had.
COUNTERS = ("pgmajfault", "workingset_refault_file", "thp_fault_alloc", "thp_fault_fallback", "compact_stall", "allocstall_normal")


def counters():
    values = dict(line.split() for line in pathlib.Path("/proc/vmstat").read_text().splitlines())
    return {name: int(values.get(name, 0)) for name in COUNTERS}


def resident_share(path):
    """How much of a file is in the page cache, 0 to 1."""
    size = os.path.getsize(path)
    with open(path, "rb") as file, mmap.mmap(file.fileno(), size, access=mmap.ACCESS_COPY) as mapped:
        pages = -(-size // mmap.PAGESIZE)
        seen = (ctypes.c_ubyte * pages)()
        view = ctypes.c_char.from_buffer(mapped)
        failed = LIBC.mincore(ctypes.c_void_p(ctypes.addressof(view)), ctypes.c_size_t(size), seen)
        del view
    return sum(page & 1 for page in seen) / pages if not failed else float("nan")


def read_through(path):
    """Brings a file into the page cache."""
    buffer = bytearray(8 << 20)
    with open(path, "rb", buffering=0) as file:
        while file.readinto(buffer):
            pass


def first_touch(size, threads):
    """GB/s at which so many bytes of new memory (huge pages advised, as Quire's buffers are) are filled for the first
    time. They are given back: what is allocated next is had quickly, since the host has just backed it."""
    with mmap.mmap(-1, size, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS) as mapped:
        mapped.madvise(mmap.MADV_HUGEPAGE)
        view = ctypes.c_char.from_buffer(mapped)
        address, share = ctypes.addressof(view), size // threads

        def fill(index):
            ctypes.memset(address + index * share, 1, share)  # lets other threads run

        workers = [threading.Thread(target=fill, args=(i,)) for i in range(threads)]
        begin = time.monotonic()
        for worker in workers:
            worker.start()
        for worker in workers:
            worker.join()
        seconds = time.monotonic() - begin
        del view
    return share * threads / seconds / 1e9
