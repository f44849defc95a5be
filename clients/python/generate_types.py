#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Writes muster/types.py from api/openapi.json: a TypedDict for every schema.

generate_types.py [--check]: with --check nothing is written, and the exit code is 1 where the file is out of date.
"""
import json
import keyword
import os
import sys

HERE = os.path.dirname(os.path.abspath(__file__))
API = os.path.join(HERE, "..", "..", "api", "openapi.json")
FILE = os.path.join(HERE, "muster", "types.py")

HEAD = '''# SPDX-License-Identifier: Apache-2.0
"""Objects of the REST API, version %s. Written by generate_types.py from api/openapi.json; do not edit."""
import sys
from typing import Any, Dict, List, Optional, Union

if sys.version_info >= (3, 11):
    from typing import Literal, NotRequired, TypedDict
else:
    from typing import Literal, TypedDict

    class _Optional(dict):
        """Stands for NotRequired, which has no effect at run time."""

        def __getitem__(self, item: Any) -> Any:
            return item

    NotRequired = _Optional()

'''

PLAIN = {"string": "str", "integer": "int", "number": "float", "boolean": "bool", "null": "None", "object": "Dict[str, Any]",
         "array": "List[Any]"}


class Writer:
    """Nested objects become classes of their own, named by where they are."""

    def __init__(self, schemas):
        self.schemas = schemas
        self.classes = []  # (name, lines), in the order in which they are needed
        self.seen = {}

    def union(self, parts):
        parts = list(dict.fromkeys(parts))
        if len(parts) == 1:
            return parts[0]
        if "None" in parts:
            return "Optional[%s]" % self.union([p for p in parts if p != "None"])
        return "Union[%s]" % ", ".join(parts)

    def type_of(self, schema, name):
        if "$ref" in schema:
            return '"%s"' % schema["$ref"].rsplit("/", 1)[1]
        if "const" in schema:
            return "Literal[%s]" % json.dumps(schema["const"])
        if "enum" in schema:
            words = [e for e in schema["enum"] if e is not None]
            literal = "Literal[%s]" % ", ".join(json.dumps(e) for e in words)
            return "Optional[%s]" % literal if len(words) < len(schema["enum"]) else literal
        for key in ("anyOf", "oneOf"):
            if key in schema:
                return self.union([self.type_of(s, name) for s in schema[key]])
        kind = schema.get("type")
        if isinstance(kind, list):
            return self.union([self.type_of(dict(schema, type=k), name) if k != "null" else "None" for k in kind])
        if kind == "array":
            return "List[%s]" % self.type_of(schema.get("items", {}), name + "Item")
        if kind == "object" and schema.get("properties"):
            return '"%s"' % self.add(name, schema)
        if kind == "object":
            more = schema.get("additionalProperties")
            return "Dict[str, %s]" % (self.type_of(more, name + "Value") if isinstance(more, dict) else "Any")
        return PLAIN.get(kind, "Any")

    def add(self, name, schema):
        text = json.dumps(schema, sort_keys=True)
        if text in self.seen and name not in self.schemas:
            return self.seen[text]  # the same object under another name
        self.seen.setdefault(text, name)
        required = set(schema.get("required", []))
        fields = []
        for key, value in schema.get("properties", {}).items():
            kind = self.type_of(value, name + "".join(w.capitalize() for w in key.replace("-", "_").split("_")))
            fields.append((key, kind if key in required else "NotRequired[%s]" % kind))
        doc = schema.get("description")
        if any(not k.isidentifier() or keyword.iskeyword(k) for k, _ in fields):  # `from` is no name of a class' field
            lines = ['%s = TypedDict("%s", {' % (name, name)]
            lines += ["    %s: %s," % (json.dumps(k), t) for k, t in fields] + ["})"]
        else:
            lines = ["class %s(TypedDict):" % name] + (['    """%s"""' % doc.replace('"""', "'''")] if doc else [])
            lines += ["    %s: %s" % f for f in fields] or ["    pass"]
        self.classes.append((name, lines))
        return name


def main():
    with open(API, encoding="utf-8") as f:
        api = json.load(f)
    schemas = api["components"]["schemas"]
    writer = Writer(schemas)
    for name, schema in schemas.items():
        if schema.get("type") == "object" and schema.get("properties"):
            writer.add(name, schema)
        else:
            writer.classes.append((name, ["%s = %s" % (name, writer.type_of(schema, name))]))
    text = HEAD % api["info"].get("version", "1")
    for _, lines in writer.classes:
        text += "\n" + "\n".join(lines) + "\n"
        text += "\n" if lines[0].startswith("class") else ""
    text = text.rstrip("\n") + "\n"
    if "--check" in sys.argv[1:]:
        try:
            with open(FILE, encoding="utf-8") as f:
                same = f.read() == text
        except FileNotFoundError:
            same = False
        if not same:
            print("muster/types.py does not follow api/openapi.json: run clients/python/generate_types.py", file=sys.stderr)
        return 0 if same else 1
    with open(FILE, "w", encoding="utf-8") as f:
        f.write(text)
    return 0


if __name__ == "__main__":
    sys.exit(main())
