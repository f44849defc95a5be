#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""People signed in by an issuer of OpenID Connect: a real one (issuer.py), the device flow by muster login, the code flow
as the dashboard has it, tokens sent with requests, keys that change, an issuer that is gone; and tokens nobody should take."""
import base64
import hashlib
import hmac
import http.client
import json
import os
import re
import shutil
import ssl
import subprocess
import sys
import tempfile
import time
import urllib.parse

from cluster import BUILD, MUSTERD, done, ok
from issuer import CLIENT, SECRET, Key, b64
from test_tls import Lab

HERE = os.path.dirname(os.path.abspath(__file__))


class Idp:
    def __init__(self, folder):
        self.folder = folder
        self.process = subprocess.Popen([sys.executable, HERE + "/issuer.py", folder], stdin=subprocess.PIPE,
                                        stdout=subprocess.PIPE, text=True)
        self.url = self.process.stdout.readline().strip()

    def ask(self, method, path, **form):
        host = urllib.parse.urlsplit(self.url)
        connection = http.client.HTTPSConnection(host.hostname, host.port, timeout=20,
                                                 context=ssl.create_default_context(cafile=self.folder + "/issuer.crt"))
        connection.request(method, path, urllib.parse.urlencode(form) if form else None)
        reply = connection.getresponse()
        body = reply.read()
        connection.close()
        return reply, json.loads(body)

    def sign(self, key=0, **claims):
        return self.ask("POST", "/sign", key=key, claims=json.dumps(claims))[1]

    def stop(self):
        self.process.stdin.close()
        self.process.wait(10)


def tokens(lab, idp):
    a = lab.told("GET", "/login/oidc")
    ok(a.status == 200 and a.json["issuer"] == idp.url and a.json["client_id"] == CLIENT and a.json["device"], "who knows people is told", a)
    for key in (0, 1):
        a = lab.told("POST", "/login/oidc", {"id_token": idp.sign(key)})
        ok(a.status == 201 and a.json["user"] == "alice" and a.json["role"] == "user", "%s: signed in" % ("RS256", "ES256")[key], a)
    token = a.json["token"]
    a = lab.told("GET", "/whoami", token=token)
    ok(a.status == 200 and a.json["user"] == "alice" and a.json["via"] == "token", "the token is good", a)
    items = lab.told("GET", "/tokens", token=token).json["items"]
    ok(all(t["expires_time"] for t in items), "and expires", items)
    ends = lab.told("POST", "/login/oidc", {"id_token": idp.sign(1)}).json["expires_time"]
    a = lab.told("POST", "/tokens", {}, token=token)
    ok(a.status == 201 and a.json["expires_time"] <= ends, "what is made by it ends with it", a)
    child = a.json["token"]
    a = lab.told("POST", "/tokens", {}, token=child)
    ok(a.status == 201 and a.json["expires_time"] <= ends, "and what is made by that", a)
    for by in (token, child):
        a = lab.told("POST", "/tokens", {"expires_seconds": 90 * 86400}, token=by)
        ok(a.status == 403 and "hands on no longer" in a.json["detail"], "a longer one is refused", a)
    a = lab.told("POST", "/tokens", {"expires_seconds": 60}, token=token)
    ok(a.status == 201 and a.json["expires_time"] < ends, "a shorter one is made", a)
    a = lab.told("POST", "/tokens", {}, token=idp.sign(1))
    ok(a.status == 201 and a.json["expires_time"] <= lab.told("POST", "/login/oidc", {"id_token": idp.sign(1)}).json["expires_time"],
       "by the issuer's own no longer than by a sign-in", a)
    a = lab.told("POST", "/tokens", {"expires_seconds": 0}, token=idp.sign(groups=["gpu-admins"]))
    ok(a.status == 403, "nor does an admin make one without an end for himself", a)
    a = lab.told("POST", "/tokens", {"user": "bob", "expires_seconds": 90 * 86400}, token=idp.sign(groups=["gpu-admins"]))
    ok(a.status == 201, "for others an admin does", a)
    a = lab.told("GET", "/whoami", token=idp.sign(1))
    ok(a.status == 200 and a.json["user"] == "alice" and a.json["via"] == "oidc", "so is the issuer's own, with a request", a)
    for groups, role, scope in ((["gpu-admins"], "admin", ""), (["lab", "nlp-leads"], "vc-admin", "vc:nlp"), (["guests"], "viewer", ""),
                                ("lab", "user", "")):
        a = lab.told("POST", "/login/oidc", {"id_token": idp.sign(groups=groups)})
        ok(a.status == 201 and (a.json["role"], a.json["scope"]) == (role, scope), "%s makes a %s" % (groups, role), a)
    a = lab.told("POST", "/login/oidc", {"id_token": idp.sign(user="carol", groups=["guests"])})
    ok(a.status == 201 and a.json["role"] == "admin", "one of auth.admins is one", a)


def refused(lab, name, token, words=None):
    a = lab.told("POST", "/login/oidc", {"id_token": token})
    ok(a.status == 401 and "token" not in a.json and (not words or words in a.json["detail"]), "refused: " + name, a)
    b = lab.told("GET", "/whoami", token=token)
    ok(b.status == 401, "and with a request", b)


def hostile(lab, idp):
    good = idp.sign()
    head, body, sig = good.split(".")
    now = int(time.time())
    stranger = Key(idp.folder, "rsa1x")
    stranger.kid = "rsa1"  # the name of the real one
    claims = json.loads(base64.urlsafe_b64decode(body + "=="))
    refused(lab, "signed by somebody else", stranger.sign(claims), "not signed by the issuer")
    refused(lab, "no signature", "%s.%s." % (b64({"alg": "none"}), body))
    refused(lab, "alg none with one", "%s.%s.%s" % (b64({"alg": "none", "kid": "rsa1"}), body, sig), "not with none")
    public = json.dumps(idp.ask("GET", "/keys")[1]["keys"][0]).encode()
    text = "%s.%s" % (b64({"alg": "HS256", "kid": "rsa1"}), body)
    refused(lab, "the public key as a shared secret", text + "." + b64(hmac.new(public, text.encode(), hashlib.sha256).digest()), "HS256")
    refused(lab, "another body", "%s.%s.%s" % (head, b64(dict(claims, preferred_username="carol")), sig))
    refused(lab, "an algorithm of the other key", "%s.%s.%s" % (b64({"alg": "ES256", "kid": "rsa1"}), body, sig))
    refused(lab, "an unknown key", stranger.sign(claims, {"alg": "RS256", "kid": "nobody"}), "no RS256 key")
    refused(lab, "a path as its key", stranger.sign(claims, {"alg": "RS256", "kid": "../../" + stranger.path}))
    refused(lab, "a key it brings along", stranger.sign(claims, {"alg": "RS256", "jwk": stranger.public()}))
    refused(lab, "extensions", stranger.sign(claims, {"alg": "RS256", "kid": "rsa1", "crit": ["b64"], "b64": False}), "extensions")
    refused(lab, "expired", idp.sign(exp=now - 120), "expired")
    refused(lab, "no end", idp.sign(exp=None), "until when")
    refused(lab, "an end that is a text", idp.sign(exp="tomorrow"), "until when")
    refused(lab, "not yet", idp.sign(nbf=now + 600), "not good yet")
    refused(lab, "for somebody else", idp.sign(aud="grafana"), "somebody else")
    refused(lab, "for us by another client", idp.sign(aud=[CLIENT, "x"], azp="x"), "somebody else")
    refused(lab, "another issuer", idp.sign(iss="https://evil.example"), "another issuer")
    refused(lab, "root", idp.sign(user="root"), "does not sign in this way")
    refused(lab, "a path as a name", idp.sign(user="../alice"), "cannot be the name")
    refused(lab, "a name with an end of line", idp.sign(user="alice\nroot"), "cannot be the name")
    refused(lab, "a name that is a list", idp.sign(preferred_username=["alice"]), "has no")
    refused(lab, "no group", idp.sign(groups=["strangers"]), "in no group")
    refused(lab, "groups in an object", idp.sign(groups={"gpu-admins": True}), "in no group")
    refused(lab, "two parts", head + "." + body)
    refused(lab, "four parts", good + "." + sig)
    refused(lab, "bits behind the signature", good[:-1] + ("B" if good[-1] != "B" else "C"))
    refused(lab, "padding", good + "==")
    refused(lab, "not JSON", "%s.%s.%s" % (b64(b"eyJ{"), body, sig))
    a = lab.told("POST", "/login/oidc", {"id_token": "eyJ" + "A" * 30000 + ".A.A"})
    ok(a.status == 400, "a huge one", a)
    ok(lab.told("GET", "/whoami", token="eyJ" + "A" * 20000 + ".A.A").status in (401, 431), "and with a request")
    for wrong in ({}, {"device": False}, {"device_code": ""}, {"device_code": 7}, {"code": "x"}, {"id_token": good, "device": True},
                  {"code": "x", "code_verifier": "y", "redirect_uri": "z"}, {"code": "x" * 9000, "code_verifier": "y", "redirect_uri": "z", "nonce": "n"}):
        ok(lab.told("POST", "/login/oidc", wrong).status == 400, "refused: %.50s" % json.dumps(wrong))
    ok(lab.told("POST", "/login/oidc", {"id_token": good, "user": "root"}).status == 400, "unknown keys are refused by name")
    a = lab.told("POST", "/login/oidc", {"device_code": "made-up&client_id=other"})
    ok(a.status == 401 and "expired_token" in a.json["detail"], "a made-up device", a)


def device(lab, idp, folder):
    env = dict(os.environ, HOME=folder, XDG_CONFIG_HOME=folder + "/config")
    for name in ("MUSTER_URL", "MUSTER_TOKEN", "MUSTER_CONTEXT"):
        env.pop(name, None)
    words = [os.path.join(BUILD, "muster"), "login", "https://localhost:%d" % lab.port, "--ca", lab.etc + "/ca.crt", "--oidc"]
    p = subprocess.Popen(words, env=env, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    line = p.stderr.readline()
    found = re.search(r"Open (\S+/yes) in a browser and enter (\S+)", line)
    ok(found and found.group(1).startswith(idp.url), "muster login --oidc says where to go", line)
    time.sleep(1.2)
    idp.ask("POST", "/approve", user_code=found.group(2), user="dora")
    out, err = p.communicate(timeout=30)
    ok(p.returncode == 0 and "as dora (user)" in out, "and is in when somebody said yes", (out, err))
    r = subprocess.run([words[0], "whoami"], env=env, capture_output=True, text=True)
    ok(r.returncode == 0 and "dora" in r.stdout, "for good", r)
    r = subprocess.run(words + ["--user", "dora"], env=env, capture_output=True, text=True)
    ok(r.returncode == 2 and "--oidc" in r.stderr, "one way only", r)


def code(lab, idp):
    """As the dashboard does it: nonce, state, PKCE."""
    end = lab.told("GET", "/login/oidc").json["authorization_endpoint"]
    verifier, back = "v" * 64, "https://localhost:%d/" % lab.port
    query = {"response_type": "code", "client_id": CLIENT, "redirect_uri": back, "scope": "openid", "state": "s1", "nonce": "n1",
             "code_challenge": b64(hashlib.sha256(verifier.encode()).digest()), "code_challenge_method": "S256"}

    def fresh():
        reply, _ = idp.ask("GET", end[len(idp.url):] + "?" + urllib.parse.urlencode(query))
        return dict(urllib.parse.parse_qsl(urllib.parse.urlsplit(reply.getheader("Location")).query))["code"]

    whole = {"code_verifier": verifier, "redirect_uri": back, "nonce": "n1"}
    a = lab.told("POST", "/login/oidc", dict(whole, code=fresh()))
    ok(a.status == 201 and a.json["user"] == "bob" and a.json["scope"] == "vc:nlp", "a code and its proof", a)
    used = fresh()
    ok(lab.told("POST", "/login/oidc", dict(whole, code=used)).status == 201, "once")
    a = lab.told("POST", "/login/oidc", dict(whole, code=used))
    ok(a.status == 401 and "invalid_grant" in a.json["detail"], "not twice", a)
    a = lab.told("POST", "/login/oidc", dict(whole, code=fresh(), code_verifier="w" * 64))
    ok(a.status == 401, "not without the proof", a)
    a = lab.told("POST", "/login/oidc", dict(whole, code=fresh(), nonce="n2"))
    ok(a.status == 401 and "another question" in a.json["detail"], "nor as the answer to another question", a)


def button(lab):
    """The dashboard itself, in a browser."""
    script = os.path.join(os.path.dirname(os.path.abspath(__file__)), "../web/signin.mjs")
    if not shutil.which("node"):
        print("# SKIP the button of the dashboard: no node")
        return
    r = subprocess.run(["node", script, "https://localhost:%d" % lab.port], capture_output=True, text=True, timeout=200)
    if r.returncode == 77:
        print("# SKIP the button of the dashboard: no browser; tools/web-setup installs one")
        return
    if not ok(r.returncode == 0 and r.stdout, "the browser runs", r):
        return
    a = json.loads(r.stdout)
    ok(not a["wrong"] and a["before"] is None, "a page asks who is there", a)
    ok(a.get("unasked") is None, "an answer nobody asked for signs nobody in", a)
    ok(a.get("who", {}).get("user") == "bob" and a["who"]["role"] == "vc-admin", "the button: away, back, signed in", a)
    asked = (a.get("asked") or [{}])[0]
    ok(asked.get("code_challenge_method") == "S256" and asked.get("nonce") and asked.get("state"), "with a challenge, a nonce and a state", asked)
    ok(a.get("page") == "/queue" and a.get("button") == 0 and a.get("kept") is None,
       "on the page it began on, without the code in its address or the proof in its store", a)
    ok(a.get("other", "?") is None, "the answer to another question is told, and signs nobody in", a)


def rotation(lab, idp):
    old = idp.sign()
    idp.ask("POST", "/rotate")
    time.sleep(1.1)  # auth.oidc.refresh
    a = lab.told("POST", "/login/oidc", {"id_token": idp.sign(1)})
    ok(a.status == 201, "a new key is fetched when a token names it", a)
    refused(lab, "a key that is gone", old)
    stranger = Key(idp.folder, "stranger")
    before, began = idp.ask("GET", "/asked")[1], time.time()
    for _ in range(10):
        lab.told("POST", "/login/oidc", {"id_token": stranger.sign({"iss": idp.url})})
    asked = idp.ask("GET", "/asked")[1] - before
    ok(asked <= time.time() - began + 1, "made-up keys do not make us a nuisance to the issuer: once a second, as configured", (asked, time.time() - began))
    time.sleep(1.1)
    idp.ask("POST", "/break")
    a = lab.told("POST", "/login/oidc", {"id_token": stranger.sign({"iss": idp.url})})
    ok(a.status == 401, "while the issuer is broken, unknown keys are refused", a)
    idp.ask("POST", "/break")
    good = idp.sign()
    idp.stop()
    a = lab.told("POST", "/login/oidc", {"id_token": good})
    ok(a.status == 201, "and known ones go on, even when it is gone", a)
    a = lab.told("POST", "/login/oidc", {"device": True})
    ok(a.status == 503 and a.json["hints"], "what needs it says so", a)


def mapped(lab, idp):
    """Subjects that the administrator has mapped, whatever names they give themselves; and accounts of the machine."""
    a = lab.told("POST", "/login/oidc", {"id_token": idp.sign(sub="id-of-fred", preferred_username="alice")})
    ok(a.status == 201 and a.json["user"] == "erin", "a subject that is mapped has that name, not the one it chose", a)
    refused(lab, "a name that is mapped, for another subject", idp.sign(sub="id-of-mallory", preferred_username="erin"), "another subject's")
    refused(lab, "an account of the machine's own", idp.sign(preferred_username="bin"), "does not sign in this way")
    refused(lab, "also where it is mapped", idp.sign(sub="id-of-www"), "does not sign in this way")
    ok("known by a claim" in lab.log() and "claim=preferred_username" in lab.log(), "the administrator is warned of the claim")


def configured(folder):
    """What is wrong in the file is said with its place."""
    for text, words in (("{issuer: http://sso.example, client_id: m, user_claim: sub}", "https"), ("{issuer: 'https://sso.example'}", "client_id"),
                        ("{issuer: 'https://s', client_id: m, user_claim: sub, roles: {boss: [a]}}", "boss"),
                        ("{issuer: 'https://s', client_id: m, user_claim: sub, roles: {admin: a}}", "list"),
                        ("{issuer: 'https://s', client_id: m, user_claim: sub, roles: {admin: [7]}}", "quotes"),
                        ("{issuer: 'https://s', client_id: m}", "user_claim"), ("{issuer: 'https://s', client_id: m, users: [a]}", "SUBJECT"),
                        ("{issuer: 'https://s', client_id: m, users: {a: 7}}", "name of a user"),
                        ("{issuer: 'https://s', client_id: m, lifetime: 90d}", "lifetime"),
                        ("{issuer: 'https://s', client_id: m, secret: x}", "secret")):
        path = folder + "/bad.yaml"
        with open(path, "w") as f:
            f.write("listen: [127.0.0.1:0]\nauth:\n  oidc: %s\n" % text)
        r = subprocess.run([MUSTERD, "--config", path], capture_output=True, text=True)
        ok(r.returncode != 0 and "bad.yaml:3:" in r.stderr and words in r.stderr, "refused: oidc: %.60s" % text, r)


def main():
    if not shutil.which("openssl"):
        print("1..0 # SKIP no openssl command to sign with")
        return
    with tempfile.TemporaryDirectory() as folder:
        os.chmod(folder, 0o755)
        configured(folder)
        idp = Idp(folder)
        lab = Lab(folder)
        with open(folder + "/secret", "w") as f:
            f.write(SECRET + "\n")
        lab.configure("auth:\n  admins: [carol]\n  oidc:\n    issuer: %s\n    client_id: %s\n    client_secret_file: %s/secret\n    ca: %s/issuer.crt\n"
                      "    refresh: 1s\n    user_claim: preferred_username\n    users: {id-of-fred: erin, id-of-www: daemon}\n    roles: {admin: [gpu-admins], 'vc-admin:nlp': [nlp-leads], user: [lab], viewer: [guests]}\n"
                      % (idp.url, CLIENT, folder, folder))
        lab.start()
        try:
            tokens(lab, idp)
            mapped(lab, idp)
            hostile(lab, idp)
            device(lab, idp, folder)
            code(lab, idp)
            button(lab)
            rotation(lab, idp)
            ok(SECRET not in lab.log() and "eyJ" not in lab.log(), "neither secret nor token is in the log")
        finally:
            ok(lab.stop() == 0, "it ends well")
            if idp.process.poll() is None:
                idp.stop()
    done()


if __name__ == "__main__":
    main()
