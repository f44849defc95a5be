#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Builds the wheel: build_wheel.py [FOLDER]. Also the PEP 517 backend of pyproject.toml.

A wheel is a zip file with three more files in it, so no tool and no network are needed. The same sources give the same
bytes. The version is that of pyproject.toml.
"""
import base64
import hashlib
import os
import re
import sys
import zipfile

HERE = os.path.dirname(os.path.abspath(__file__))


def project():
    """Keys of [project]; tomllib is not there before Python 3.11."""
    with open(os.path.join(HERE, "pyproject.toml"), encoding="utf-8") as f:
        section = f.read().split("[project]", 1)[1].split("\n[", 1)[0]
    return dict(re.findall(r'^([a-z-]+) = "(.*)"$', section, re.M))


def metadata(keys):
    with open(os.path.join(HERE, "README.md"), encoding="utf-8") as f:
        readme = f.read()
    return ("Metadata-Version: 2.1\nName: %s\nVersion: %s\nSummary: %s\nLicense: Apache-2.0\nRequires-Python: %s\n"
            "Description-Content-Type: text/markdown\n\n%s" %
            (keys["name"], keys["version"], keys["description"], keys["requires-python"], readme))


def wheel_files(keys):
    """Names in the wheel and their bytes."""
    info = "%s-%s.dist-info" % (keys["name"].replace("-", "_"), keys["version"])
    files = {}
    for name in sorted(os.listdir(os.path.join(HERE, "muster"))):
        if name.endswith(".py") or name == "py.typed":
            with open(os.path.join(HERE, "muster", name), "rb") as f:
                files["muster/" + name] = f.read()
    files[info + "/METADATA"] = metadata(keys).encode()
    files[info + "/WHEEL"] = b"Wheel-Version: 1.0\nGenerator: muster\nRoot-Is-Purelib: true\nTag: py3-none-any\n"
    record = ""
    for name, data in files.items():
        digest = base64.urlsafe_b64encode(hashlib.sha256(data).digest()).rstrip(b"=").decode()
        record += "%s,sha256=%s,%d\n" % (name, digest, len(data))
    files[info + "/RECORD"] = (record + info + "/RECORD,,\n").encode()
    return files


def build_wheel(wheel_directory, config_settings=None, metadata_directory=None):
    keys = project()
    name = "%s-%s-py3-none-any.whl" % (keys["name"].replace("-", "_"), keys["version"])
    os.makedirs(wheel_directory, exist_ok=True)
    with zipfile.ZipFile(os.path.join(wheel_directory, name), "w", zipfile.ZIP_DEFLATED) as z:
        for file, data in wheel_files(keys).items():
            about = zipfile.ZipInfo(file, (2020, 1, 1, 0, 0, 0))
            about.external_attr = 0o100644 << 16
            about.compress_type = zipfile.ZIP_DEFLATED
            z.writestr(about, data)
    return name


def get_requires_for_build_wheel(config_settings=None):
    return []


if __name__ == "__main__":
    print(build_wheel(sys.argv[1] if len(sys.argv) > 1 else os.path.join(HERE, "dist")))
