#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""issuer.py FOLDER - a small issuer of OpenID Connect, as a process of its own.

Serves the discovery document, keys, the device flow and the code flow with PKCE over HTTPS with a certificate it makes
itself (FOLDER/issuer.crt); signs with the openssl command. Prints its URL. It says yes to everybody: POST /approve lets
a device in, GET /authorize answers with a code at once. POST /rotate makes new keys; POST /break answers no more.
Its functions are also used by the test to sign what no issuer would.
"""
import base64
import hashlib
import http.server
import json
import os
import secrets
import ssl
import subprocess
import sys
import threading
import time
import urllib.parse

CLIENT, SECRET = "muster", "s3cret & more"


def run(*words, data=None):
    return subprocess.run(words, input=data, check=True, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL).stdout


def b64(data):
    data = data if isinstance(data, bytes) else json.dumps(data).encode()
    return base64.urlsafe_b64encode(data).rstrip(b"=").decode()


class Key:
    """RSA or P-256, with the openssl command."""

    def __init__(self, folder, kid, alg="RS256", bits=2048):
        self.kid, self.alg = kid, alg
        self.path = os.path.join(folder, "%s.key" % kid)
        if alg == "RS256":
            run("openssl", "genrsa", "-out", self.path, str(bits))
        else:
            run("openssl", "ecparam", "-name", "prime256v1", "-genkey", "-noout", "-out", self.path)

    def public(self):
        if self.alg == "RS256":
            text = run("openssl", "rsa", "-in", self.path, "-modulus", "-noout").decode()
            n = bytes.fromhex(text.split("=")[1].strip())
            return {"kty": "RSA", "kid": self.kid, "use": "sig", "alg": "RS256", "n": b64(n), "e": "AQAB"}
        point = run("openssl", "ec", "-in", self.path, "-pubout", "-outform", "DER")[-64:]
        return {"kty": "EC", "kid": self.kid, "use": "sig", "crv": "P-256", "x": b64(point[:32]), "y": b64(point[32:])}

    def sign(self, claims, head=None):
        text = "%s.%s" % (b64(head or {"alg": self.alg, "kid": self.kid, "typ": "JWT"}), b64(claims))
        sig = run("openssl", "dgst", "-sha256", "-sign", self.path, data=text.encode())
        if self.alg == "ES256":  # SEQUENCE of two INTEGERs to 64 bytes
            at, out = 2, b""
            for _ in range(2):
                size = sig[at + 1]
                out += sig[at + 2:at + 2 + size].lstrip(b"\0").rjust(32, b"\0")
                at += 2 + size
            sig = out
        return text + "." + b64(sig)


class Issuer:
    def __init__(self, folder):
        self.folder, self.devices, self.codes, self.broken, self.asked, self.turn = folder, {}, {}, False, 0, 0
        self.rotate()

    def rotate(self):
        self.turn += 1
        self.keys = [Key(self.folder, "rsa%d" % self.turn), Key(self.folder, "ec%d" % self.turn, "ES256")]

    def claims(self, user="alice", **more):
        now = int(time.time())
        return dict({"iss": self.url, "aud": CLIENT, "sub": "id-of-" + user, "preferred_username": user, "iat": now,
                     "exp": now + 300, "groups": ["lab"]}, **more)

    def document(self):
        return {"issuer": self.url, "jwks_uri": self.url + "/keys", "token_endpoint": self.url + "/token",
                "device_authorization_endpoint": self.url + "/device", "authorization_endpoint": self.url + "/authorize"}

    def device(self, form):
        if form.get("client_id") != CLIENT or form.get("client_secret") != SECRET:
            return 401, {"error": "invalid_client"}
        code, user_code = secrets.token_urlsafe(24), "BCDF-%04d" % (len(self.devices) + 1)
        self.devices[code] = {"user_code": user_code, "user": None}
        return 200, {"device_code": code, "user_code": user_code, "verification_uri": self.url + "/yes", "interval": 1,
                     "expires_in": 60}

    def token(self, form):
        if form.get("client_id") != CLIENT or form.get("client_secret") != SECRET:
            return 401, {"error": "invalid_client"}
        if form.get("grant_type") == "urn:ietf:params:oauth:grant-type:device_code":
            device = self.devices.get(form.get("device_code"))
            if not device:
                return 400, {"error": "expired_token"}
            if not device["user"]:
                return 400, {"error": "authorization_pending"}
            del self.devices[form["device_code"]]
            return 200, {"token_type": "Bearer", "access_token": "x", "id_token": self.keys[1].sign(self.claims(device["user"]))}
        code = self.codes.pop(form.get("code"), None)
        proof = b64(hashlib.sha256(form.get("code_verifier", "").encode()).digest())
        if not code or code["challenge"] != proof or code["redirect_uri"] != form.get("redirect_uri"):
            return 400, {"error": "invalid_grant"}
        return 200, {"token_type": "Bearer", "access_token": "x",
                     "id_token": self.keys[0].sign(self.claims("bob", nonce=code["nonce"], groups=["lab", "nlp-leads"]))}


class Handler(http.server.BaseHTTPRequestHandler):
    issuer = None

    def log_message(self, *unused):
        pass

    def answer(self, status, body, **heads):
        data = json.dumps(body).encode()
        self.send_response(status)
        for name, value in heads.items():
            self.send_header(name, value)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    def do_GET(self):
        i, url = self.issuer, urllib.parse.urlsplit(self.path)
        query = dict(urllib.parse.parse_qsl(url.query))
        if i.broken:
            self.answer(500, {})
        elif url.path == "/.well-known/openid-configuration":
            i.asked += 1
            self.answer(200, i.document())
        elif url.path == "/keys":
            self.answer(200, {"keys": [k.public() for k in i.keys] + [{"kty": "oct", "k": "AAAA", "kid": "x"}]})
        elif url.path == "/asked":
            self.answer(200, i.asked)
        elif url.path == "/authorize" and query.get("code_challenge_method") == "S256" and query.get("client_id") == CLIENT:
            code = secrets.token_urlsafe(16)
            i.codes[code] = {"challenge": query["code_challenge"], "redirect_uri": query["redirect_uri"], "nonce": query["nonce"]}
            back = urllib.parse.urlencode({"code": code, "state": query["state"]})
            self.answer(302, {}, Location=query["redirect_uri"] + "?" + back)
        else:
            self.answer(404, {})

    def do_POST(self):
        i = self.issuer
        form = dict(urllib.parse.parse_qsl(self.rfile.read(int(self.headers.get("Content-Length", 0))).decode()))
        if self.path == "/approve":
            for device in i.devices.values():
                if device["user_code"] == form["user_code"]:
                    device["user"] = form["user"]
            self.answer(200, {})
        elif self.path == "/rotate":
            i.rotate()
            self.answer(200, {})
        elif self.path == "/break":
            i.broken = not i.broken
            self.answer(200, {})
        elif i.broken:
            self.answer(500, {})
        elif self.path == "/sign":
            more = json.loads(form["claims"])
            claims = {k: v for k, v in i.claims(**more).items() if v is not None}
            self.answer(200, i.keys[int(form["key"])].sign(claims))
        elif self.path == "/device":
            self.answer(*i.device(form))
        elif self.path == "/token":
            self.answer(*i.token(form))
        else:
            self.answer(404, {})


def main():
    folder = sys.argv[1]
    cert, key = folder + "/issuer.crt", folder + "/issuer.key"
    run("openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-keyout", key, "-out", cert, "-days", "2", "-subj",
        "/CN=localhost", "-addext", "subjectAltName=DNS:localhost,IP:127.0.0.1")
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(cert, key)
    server.socket = context.wrap_socket(server.socket, server_side=True)
    Handler.issuer = Issuer(folder)
    Handler.issuer.url = "https://localhost:%d" % server.server_address[1]
    print(Handler.issuer.url, flush=True)
    threading.Thread(target=lambda: (sys.stdin.read(), os._exit(0)), daemon=True).start()  # ends with who started it
    server.serve_forever()


if __name__ == "__main__":
    main()
