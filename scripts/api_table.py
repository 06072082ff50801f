#!/usr/bin/env python3
"""Writes docs/api-fields.md, the table of every request field, from the document that the built binary gives:
the same tables that parse requests. With --check only says whether the page is behind.

    scripts/api_table.py [--check] [BINARY]
"""
import json
import pathlib
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent
PAGE = ROOT / "docs" / "api-fields.md"
HEAD = """# Fields of requests

Made by `scripts/api_table.py` from the tables that parse requests; `/openapi.json` and `/docs` of a running server show the
same. null means absent. Fields that stand in no table are ignored, and named once in the log.
"""
SERVERS = ["openai", "vllm", "llama.cpp"]


def code(value):
    return "`" + json.dumps(value, ensure_ascii=False).replace("|", "\\|") + "`"


def kind(schema):
    """What a value may be, in words."""
    if "enum" in schema:
        return ", ".join(code(v) for v in schema["enum"] if v is not None)
    if "const" in schema:
        return code(schema["const"])
    if "anyOf" in schema:
        return " or ".join(filter(None, map(kind, schema["anyOf"])))
    types = schema.get("type", "any")
    types = [t for t in (types if isinstance(types, list) else [types]) if t != "null"]
    words = " or ".join({"array": "list", "any": "anything"}.get(t, t) for t in types)
    if "items" in schema:
        words += " of " + kind(schema["items"])
    low, above = schema.get("minimum"), schema.get("exclusiveMinimum")
    high = schema.get("maximum")
    if high is not None and high >= 2**31 - 1:
        high = None
    if low is not None or above is not None or high is not None:
        least = f"> {above}" if above is not None else f"≥ {low}" if low is not None else ""
        words += " " + " and ".join(filter(None, [least, f"≤ {high}" if high is not None else ""]))
    if "maxItems" in schema:
        words += f", at most {schema['maxItems']}"
    return words


def rows(properties, required, prefix="", around=()):
    """around: who has the field that these are in; members say it only where they differ."""
    for name, schema in properties.items():
        refused = schema.get("enum", [])[:1] == [False] and "Not supported" in schema.get("description", "")
        takes = "not supported" if refused else kind(schema)
        default = "required" if name in required else code(schema["default"]) if "default" in schema else ""
        also_in = schema.get("x-also-in", around)
        marks = ["x" if server in also_in else "" for server in SERVERS]
        note = schema.get("description", "").replace(". Not supported: leave it out", "").replace("|", "\\|")
        yield "| " + " | ".join([f"`{prefix}{name}`", takes, default, *marks, note]) + " |"
        if "properties" in schema and schema.get("type") in ("object", ["object", "null"]):
            yield from rows(schema["properties"], schema.get("required", []), f"{prefix}{name}.", also_in)


def page(document):
    seen, out = {}, [HEAD]
    for path, item in document["paths"].items():
        body = item.get("post", {}).get("requestBody")
        if not body:
            continue
        name = body["content"]["application/json"]["schema"]["$ref"].rsplit("/", 1)[1]
        schema = document["components"]["schemas"][name]
        key = json.dumps(schema)
        if key in seen:
            out.append(f"## `POST {path}`\n\nThe fields of `{seen[key]}`.\n")
            continue
        seen[key] = path
        out.append(f"## `POST {path}`\n\n| field | takes | default | OpenAI | vLLM | llama.cpp | |\n"
                   "| --- | --- | --- | --- | --- | --- | --- |")
        out.append("\n".join(rows(schema["properties"], schema.get("required", []))) + "\n")
    return "\n".join(out)


def main():
    arguments = [a for a in sys.argv[1:] if a != "--check"]
    binary = arguments[0] if arguments else str(ROOT / "build" / "quire")
    text = page(json.loads(subprocess.run([binary, "openapi"], check=True, capture_output=True, text=True).stdout))
    if "--check" not in sys.argv:
        PAGE.write_text(text)
        print(f"{PAGE.relative_to(ROOT)} written")
    elif not PAGE.exists() or PAGE.read_text() != text:
        sys.exit(f"{PAGE.relative_to(ROOT)} is behind the tables: run scripts/api_table.py")


if __name__ == "__main__":
    main()
