#!/usr/bin/env python3
"""Fails on an #include that the modules' dependency graph does not allow.

The graph has one source: the DEPS of quire_module(...) in src/CMakeLists.txt (and, for kernels, the
quire_* libraries that src/kernels/CMakeLists.txt links). What a module may include: itself, its DEPS,
and nothing through them. app/ may include everything.

Files of an instruction-set folder (src/kernels/cpu/<isa>/) may include, directly or through a header
of kernels/, no standard header but <cstdint>, <cstddef> and the intrinsics: inline functions compiled for
a newer CPU could be linked in place of the portable ones.
"""
import pathlib
import re
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent
SRC = ROOT / "src"
INCLUDE = re.compile(r'^\s*#\s*include\s+(["<])([^">]+)[">]')
PLAIN_ISA_FOLDERS = {"ref"}  # compiled with the base flags, so standard headers do no harm
ISA_HEADERS = {"cstdint", "cstddef", "stdint.h", "stddef.h", "immintrin.h", "arm_neon.h"}


def read_graph():
    """{module: set of modules it may include}, from the CMake files."""
    graph = {}
    text = (SRC / "CMakeLists.txt").read_text()
    for call in re.findall(r"quire_module\(([^)]*)\)", text):
        words = call.split()
        deps, taking = set(), False
        for word in words[1:]:
            if word.isupper():
                taking = word == "DEPS"
            elif taking:
                deps.add(word)
        graph[words[0]] = deps
    for folder in re.findall(r"add_subdirectory\((\w+)\)", text):
        cmake = (SRC / folder / "CMakeLists.txt").read_text()
        linked = re.search(rf"target_link_libraries\(quire_{folder} PUBLIC([^)]*)\)", cmake)
        names = re.findall(r"quire_(\w+)", linked.group(1)) if linked else []
        graph[folder] = {n for n in names if n != "options"}
    return graph


def check_acyclic(graph):
    done, path = set(), []

    def visit(module):
        if module in path:
            cycle = " -> ".join(path[path.index(module):] + [module])
            raise SystemExit(f"src/CMakeLists.txt: the dependency graph has a cycle: {cycle}")
        if module in done:
            return
        path.append(module)
        for dep in sorted(graph.get(module, ())):
            if dep not in graph:
                raise SystemExit(f"src/CMakeLists.txt: {module} depends on {dep}, which is no module")
            visit(dep)
        path.pop()
        done.add(module)

    for module in graph:
        visit(module)


def isa_folder(path):
    """The instruction set's name for a file under src/kernels/cpu/<isa>/, else None."""
    parts = path.relative_to(SRC).parts
    if len(parts) > 3 and parts[:2] == ("kernels", "cpu") and parts[2] not in PLAIN_ISA_FOLDERS:
        return parts[2]
    return None


def includes(path):
    """(line number, quote, name) of each #include of a file."""
    for number, line in enumerate(path.read_text(errors="replace").splitlines(), 1):
        if match := INCLUDE.match(line):
            yield number, *match.groups()


def check_isa_file(path):
    """Complains about every standard header that the file reaches through headers of kernels/."""
    seen, pending = set(), [path]
    while pending:
        current = pending.pop()
        if current in seen or not current.is_file() or SRC / "kernels" not in current.parents:
            continue
        seen.add(current)
        for number, quote, name in includes(current):
            if quote == '"':
                pending.append(SRC / name)
            elif name not in ISA_HEADERS:
                reached = "" if current == path else f", reached from {path.relative_to(ROOT)}"
                yield (f"{current.relative_to(ROOT)}:{number}: <{name}> in code of an instruction-set "
                       f"folder{reached}; allowed: {', '.join(sorted(ISA_HEADERS))}")


def check_file(path, graph):
    module = path.relative_to(SRC).parts[0]
    if isa_folder(path) and not path.stem.endswith("_test"):
        yield from check_isa_file(path)
    for number, quote, name in includes(path):
        target = name.split("/")[0]
        if quote == "<" or "/" not in name or target not in graph:
            continue
        if target != module and target not in graph[module]:
            yield (f"{path.relative_to(ROOT)}:{number}: {module} may not include \"{name}\"; "
                   f"its DEPS in src/CMakeLists.txt: {', '.join(sorted(graph[module])) or 'none'}")


def main():
    graph = read_graph()
    check_acyclic(graph)
    errors, count = [], 0
    for path in sorted(SRC.rglob("*")):
        if path.suffix not in (".h", ".cpp"):
            continue
        if path.relative_to(SRC).parts[0] not in graph:
            errors.append(f"{path.relative_to(ROOT)}: its folder is no module of src/CMakeLists.txt")
            continue
        count += 1
        errors += check_file(path, graph)
    for error in dict.fromkeys(errors):
        print(error, file=sys.stderr)
    if errors:
        sys.exit(1)
    print(f"include graph: {count} files of {len(graph)} modules follow it")


if __name__ == "__main__":
    main()
