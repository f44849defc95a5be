#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""answers.py FILE - a controller that always says the same: answers by method and path, from a JSON file.

Prints its URL and serves until its standard input ends. {"GET /jobs": {...}} matches any query; an answer with "status"
and "body" is an error. What it was sent is kept: GET /sent lists it.
"""
import http.server
import json
import sys
import threading

answers = json.load(open(sys.argv[1]))
sent = []


class Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def answer(self):
        path = self.path.split("?")[0].removeprefix("/api/v1")
        length = int(self.headers.get("Content-Length") or 0)
        body = self.rfile.read(length).decode() if length else ""
        key = f"{self.command} {path}"
        if path == "/sent":
            found, status = {"items": sent}, 200
        else:
            sent.append({"request": self.command + " " + self.path, "body": json.loads(body) if body else None})
            found = answers.get(key)
            status = 404 if found is None else found.get("status", 200) if "body" in found else 200
            if found is None:
                found = {"title": "Not found", "status": 404, "detail": f"no {path}", "code": "NotFound", "hints": []}
            elif "body" in found:
                found = found["body"]
        data = json.dumps(found).encode()
        self.send_response(status)
        self.send_header("Content-Type", "application/json" if status < 400 else "application/problem+json")
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    do_GET = do_POST = do_PATCH = do_PUT = do_DELETE = answer

    def log_message(self, *_):
        pass


server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
threading.Thread(target=server.serve_forever, daemon=True).start()
print(f"http://127.0.0.1:{server.server_address[1]}", flush=True)
sys.stdin.read()
