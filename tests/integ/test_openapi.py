#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The document of the interface against real answers: each GET, and what changes things, has the shape it promises."""
import json
import os
import re

from cluster import Musterd, done, ok

SOURCE = os.environ.get("MUSTER_SOURCE", ".")


def problems(doc, schema, value, where="$"):
    """What is wrong with a value by a schema; the part of JSON Schema the document uses, and no more."""
    if "$ref" in schema:
        return problems(doc, doc["components"]["schemas"][schema["$ref"].rsplit("/", 1)[1]], value, where)
    out = []
    if "anyOf" in schema:
        tries = [problems(doc, s, value, where) for s in schema["anyOf"]]
        return [] if any(not t for t in tries) else tries[-1]
    if "const" in schema and value != schema["const"]:
        out.append("%s: %r is not %r" % (where, value, schema["const"]))
    if "enum" in schema and value not in schema["enum"]:
        out.append("%s: %r is none of %s" % (where, value, schema["enum"]))
    kinds = {"string": str, "integer": int, "number": (int, float), "boolean": bool, "object": dict, "array": list,
             "null": type(None)}
    if "type" in schema:
        wanted = schema["type"] if isinstance(schema["type"], list) else [schema["type"]]
        if not any(isinstance(value, kinds[w]) and not (isinstance(value, bool) and w in ("integer", "number"))
                   for w in wanted):
            return out + ["%s: %r is not %s" % (where, value, wanted)]
    if schema.get("format") == "date-time" and value is not None and \
            not re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{6}Z", value):
        out.append("%s: %r is no time" % (where, value))
    if isinstance(value, dict):
        known = schema.get("properties", {})
        out += ["%s: %s is missing" % (where, k) for k in schema.get("required", []) if k not in value]
        for key, item in value.items():
            if key in known:
                out += problems(doc, known[key], item, where + "." + key)
            elif schema.get("additionalProperties") is False:
                out.append("%s: %s is not in the document" % (where, key))
            elif isinstance(schema.get("additionalProperties"), dict):
                out += problems(doc, schema["additionalProperties"], item, where + "." + key)
    if isinstance(value, list) and "items" in schema:
        for i, item in enumerate(value):
            out += problems(doc, schema["items"], item, "%s[%d]" % (where, i))
    return out


def check(doc, m, method, template, path, body=None):
    answer = m.ask(method, path, body)
    responses = doc["paths"][template][method.lower()]["responses"]
    expected = responses.get(str(answer.status), responses["default"] if answer.status >= 400 else None)
    if not ok(expected is not None, "%s %s: %d is in the document" % (method, path, answer.status), answer):
        return answer
    content = expected.get("content", {})
    kind = answer.headers.get("content-type", "").split(";")[0]
    if content:
        ok(kind in content, "%s %s: %s" % (method, path, kind), list(content))
    schema = content.get(kind, {}).get("schema")
    if schema and "json" in kind:
        wrong = problems(doc, schema, answer.json)
        ok(not wrong, "%s %s: as promised" % (method, path), wrong[:5])
    return answer


def main():
    with open(os.path.join(SOURCE, "api/openapi.json")) as f:
        doc = json.load(f)
    ok(doc["openapi"] == "3.1.0", "OpenAPI 3.1")
    names = re.findall(r'"#/components/schemas/(\w+)"', json.dumps(doc))
    ok(set(names) == set(doc["components"]["schemas"]), "every schema is used and there",
       set(names) ^ set(doc["components"]["schemas"]))
    with Musterd("2x8:H100") as m:
        m.wait_nodes(2)
        ok(m.get("/openapi.json").json == doc, "what is served is the file")
        running = check(doc, m, "POST", "/jobs", "/jobs", {"name": "r", "run": "sleep 30", "gpus": "H100:8", "time": "9m"})
        job = running.json["id"]
        m.post("/jobs", {"run": "sleep 30", "gpus": "H100:8"})
        waits = m.post("/jobs", {"run": "true", "nodes": 2, "per_node": {"gpu": "H100:8"}, "time": "1m"}).json["id"]
        over = m.post("/jobs", {"run": "exit 1", "gpus": "H100:1", "hold": True}).json["id"]
        m.ask("DELETE", "/jobs/%d" % over)
        array = m.post("/jobs", {"run": "true", "gpus": 1, "array": "0-2", "hold": True}).json["id"]
        m.wait_state(job, "RUNNING")
        values = {"name": "gpu01", "index": "0", "kind": "users", "file": "trace.csv"}
        for template, methods in doc["paths"].items():
            if "get" not in methods or template.endswith("/exec"):
                continue
            ids = [array] if "arrays" in template else [job, waits, over] if "jobs" in template else [job]
            for number in ids:
                path = template.replace("{id}", str(number))
                for key, value in values.items():
                    path = path.replace("{%s}" % key, "default" if key == "name" and "/vcs" in path else value)
                check(doc, m, "GET", template, path)
        for query in ("?all=1&eta=1", "?fields=id,name", "?state=NOPE", "?limit=0", "?sort=-gpus", "?merge=1", "?all=1&merge=arrays"):
            check(doc, m, "GET", "/jobs", "/jobs" + query)
        check(doc, m, "POST", "/jobs:plan", "/jobs:plan", {"run": "true", "gpus": "H100:8", "time": "1m"})
        check(doc, m, "POST", "/jobs:plan", "/jobs:plan", {"run": "true", "nodes": 1, "per_node": {"gpu": "H100:80"}})
        check(doc, m, "POST", "/jobs", "/jobs", {"run": "true", "colour": 1})
        check(doc, m, "PATCH", "/jobs/{id}", "/jobs/%d" % waits, {"priority": "low"})
        check(doc, m, "POST", "/jobs/{id}/{action}", "/jobs/%d/hold" % waits)
        check(doc, m, "POST", "/jobs:batch", "/jobs:batch", {"action": "release", "ids": [waits, 99999]})
        check(doc, m, "PATCH", "/nodes/{name}", "/nodes/gpu02", {"drain": True, "reason": "x"})
        check(doc, m, "PATCH", "/nodes/{name}/gpus/{index}", "/nodes/gpu02/gpus/1", {"drain": True, "reason": "x"})
        check(doc, m, "PATCH", "/nodes/{name}", "/nodes/gpu02", {"drain": False})
        check(doc, m, "PATCH", "/scheduler", "/scheduler", {"paused": True})
        trace = "id,submit,duration,gpus,user\n1,0,10,8,a\n2,1,10,8,b\n3,2,10,8,b\n"
        sim = check(doc, m, "POST", "/sim", "/sim", {"policies": ["present", "srsf"], "trace": trace}).json["id"]
        m.until(lambda: m.get("/sim/%d" % sim).json["state"] == "done")
        check(doc, m, "GET", "/sim", "/sim")
        check(doc, m, "GET", "/sim/{id}", "/sim/%d" % sim)
        check(doc, m, "GET", "/sim/{id}/{file}", "/sim/%d/trace.csv" % sim)
        check(doc, m, "GET", "/sim/{id}/{file}", "/sim/%d/cluster.yaml" % sim)
        check(doc, m, "POST", "/sim", "/sim", {"policies": ["nope"]})
        check(doc, m, "DELETE", "/sim/{id}", "/sim/%d" % sim)
        check(doc, m, "PUT", "/config", "/config?validate=1", {"policy": "fifo"})
        token = check(doc, m, "POST", "/tokens", "/tokens", {"role": "viewer"})
        check(doc, m, "GET", "/tokens", "/tokens")
        check(doc, m, "DELETE", "/tokens/{id}", "/tokens/" + token.json["id"])
        check(doc, m, "DELETE", "/nodes/{name}", "/nodes/none")
        check(doc, m, "DELETE", "/arrays/{id}", "/arrays/%d" % array)
        check(doc, m, "DELETE", "/jobs/{id}", "/jobs/%d?now=1" % waits)
    done()


main()
