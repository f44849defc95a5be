#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""hide.py VERSION DEF... - a linker's version script for a fake driver of that version: what the tables name as newer is not
exported, neither for the look-up functions nor for dlsym. What is has a symbol version, as dlvsym asks for."""
import re
import sys

since = {}
for path in sys.argv[2:]:
    text = open(path).read()
    rows = re.findall(r"^VERSION\(\w+, (\d+), \d, (\w+)\)", text, re.M)
    rows += [(v, name) for name, v in re.findall(r"^UNHOOKED\((\w+), (\d+)\)", text, re.M)]
    for version, name in rows:
        since[name] = min(int(version), since.get(name, 99999))
hidden = sorted(name for name, version in since.items() if version > int(sys.argv[1]))
print("libcuda.so.1 { global: cu*; fake_*; ioctl; local: " + " ".join(name + ";" for name in hidden) + " *; };")
