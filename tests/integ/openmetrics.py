# SPDX-License-Identifier: Apache-2.0
"""Whether a text is OpenMetrics 1.0: families whole and once, samples of their type's form, buckets that add up."""
import math
import re

NAME = r"[a-zA-Z_:][a-zA-Z0-9_:]*"
LABEL = re.compile(r'([a-zA-Z_][a-zA-Z0-9_]*)="((?:[^"\\\n]|\\\\|\\"|\\n)*)"')
SAMPLE = re.compile(r"^(%s)(\{.*\})? ([^ ]+)$" % NAME)
NUMBER = re.compile(r"^([-+]?(\d+(\.\d*)?|\.\d+)([eE][-+]?\d+)?|[-+]?Inf|NaN)$")
SUFFIXES = {"gauge": [""], "counter": ["_total", "_created"], "histogram": ["_bucket", "_count", "_sum", "_created"]}


def labels_of(text):
    """{name: value}; None when it is not a list of labels."""
    if not text:
        return {}
    inside, at, out = text[1:-1], 0, {}
    while at < len(inside):
        m = LABEL.match(inside, at)
        if not m or m.group(1) in out:
            return None
        out[m.group(1)] = m.group(2)
        at = m.end()
        if at < len(inside):
            if inside[at] != ",":
                return None
            at += 1
    return out


def histogram_problems(name, samples):
    out, groups = [], {}
    for sample, labels, value in samples:
        key = tuple(sorted((k, v) for k, v in labels.items() if k != "le"))
        groups.setdefault(key, {}).setdefault(sample[len(name):], []).append((labels.get("le"), value))
    for key, parts in groups.items():
        buckets = parts.get("_bucket", [])
        bounds = [math.inf if b == "+Inf" else float(b) for b, _ in buckets]
        counts = [v for _, v in buckets]
        if not bounds or bounds[-1] != math.inf:
            out.append("%s%s: no bucket +Inf" % (name, key))
        elif bounds != sorted(set(bounds)) or counts != sorted(counts):
            out.append("%s%s: buckets are not ascending" % (name, key))
        elif "_count" not in parts or parts["_count"][0][1] != counts[-1]:
            out.append("%s%s: the count is not that of +Inf" % (name, key))
    return out


def problems(text):
    """What is wrong with it, and {family: (type, [(sample, labels, value)])}."""
    out, families, current, seen = [], {}, None, set()
    lines = text.split("\n")
    if lines[-2:] != ["# EOF", ""]:
        out.append("it does not end in '# EOF'")
    for number, line in enumerate(lines[:-2], 1):
        words = line.split(" ", 3)
        if line.startswith("# TYPE "):
            if words[2] in families or words[3] not in SUFFIXES:
                out.append("line %d: %s comes twice, or type %s is unknown" % (number, words[2], words[3]))
            current = words[2]
            families[current] = (words[3], [])
        elif line.startswith("# HELP "):
            if words[2] != current or families[current][1]:
                out.append("line %d: HELP of %s is not with its TYPE" % (number, words[2]))
        else:
            m = SAMPLE.match(line)
            labels = labels_of(m.group(2)) if m else None
            if not m or labels is None or not NUMBER.match(m.group(3)):
                out.append("line %d: not a sample: %s" % (number, line[:120]))
                continue
            kind = families[current][0] if current else "gauge"
            if not current or m.group(1) not in [current + s for s in SUFFIXES[kind]]:
                out.append("line %d: %s is not of the family %s (%s)" % (number, m.group(1), current, kind))
                continue
            key = (m.group(1), tuple(sorted(labels.items())))
            if key in seen:
                out.append("line %d: %s comes twice" % (number, line))
            seen.add(key)
            value = float(m.group(3).replace("Inf", "inf"))
            if kind == "counter" and (value < 0 or current.endswith("_total")):
                out.append("line %d: a counter below zero, or a family named _total" % number)
            families[current][1].append((m.group(1), labels, value))
    for name, (kind, samples) in families.items():
        if kind == "histogram":
            out += histogram_problems(name, samples)
    return out, families
