# SPDX-License-Identifier: Apache-2.0
"""Compares every signature of hooks.def and needs.def with the toolkit's header, and every exported name of the driver that
launches, allocates, maps or imports with the table and the reviewed list. abi_check.py [CUDA_H [LIBCUDA]]

Without LIBCUDA it is the driver of the machine, which is also asked what its look-up gives for each version. Without CUDA_H
either it is the toolkit in its usual place with its stub of the driver, which can be read only; status 77 where there is none.
"""
import glob
import os
import re
import subprocess
import sys

HERE = os.path.dirname(os.path.abspath(__file__))
SHIM = os.path.join(HERE, "../../src/shim")


def kind(param):
    """A parameter as the machine sees it: p(ointer), 1 2 4 8 bytes, or s(truct)."""
    p = param.strip()
    if "*" in p or "[" in p:
        return "p"
    words = re.sub(r"\b(const|struct|enum)\b", "", p).split()
    t = " ".join(words[:-1] if len(words) > 1 and words[-1] not in ("int", "char", "short", "long") else words)
    if t in ("size_t", "cuuint64_t", "uint64_t", "unsigned long long", "CUdeviceptr", "CUmemGenericAllocationHandle",
             "CUdeviceptr_v2", "CUmemGenericAllocationHandle_v1"):
        return "8"
    if t in ("unsigned char",):
        return "1"
    if t in ("unsigned short",):
        return "2"
    if t in ("int", "unsigned int", "CUdevice", "CUdevice_v1", "CUdeviceptr_v1", "cuuint32_t"):
        return "4"
    if t in ("cuda_location", "cuda_ipc_mem", "CUmemLocation", "CUipcMemHandle"):
        return "s"
    if re.match(r"CU(context|stream|event|function|kernel|graph|graphNode|graphExec|array|mipmappedArray|memoryPool|"
                r"externalMemory|greenCtx|devResourceDesc)$", t):
        return "p"
    return "4" if t.startswith("CU") else "?" + t


def split(params):
    params = params.strip()
    return [] if params in ("void", "") else [kind(p) for p in params.split(",")]


def ours():
    text = open(os.path.join(SHIM, "hooks.def")).read() + open(os.path.join(SHIM, "needs.def")).read()
    text = re.sub(r"/\*.*?\*/", "", text, flags=re.S)
    out = {}
    for m in re.finditer(r"HOOK_\w+\((\w+),\s*\w+,\s*\w+,\s*\(([^)]*)\)", text):
        out[m.group(1)] = split(m.group(2))
    for m in re.finditer(r"NEED\((\w+),\s*\(([^)]*)\)", text):
        out[m.group(1)] = split(m.group(2))
    return out


def header(path):
    run = subprocess.run(["cc", "-E", "-P", "-D__CUDA_API_VERSION_INTERNAL", path], capture_output=True, text=True)
    text = re.sub(r"__attribute__\s*\(\([^)]*\)\)", "", run.stdout)
    out = {}
    for m in re.finditer(r"\bCUresult\s+(cu\w+)\s*\(([^;{]*)\)\s*;", text):
        out[m.group(1)] = split(m.group(2))
    return out


def driver_path():
    import ctypes

    ctypes.CDLL("libcuda.so.1")
    return next(line.split()[-1] for line in open("/proc/self/maps") if "libcuda.so" in line)


def versions_wrong():
    """Every line of versions.def against the driver's own look-up: the address it gives is that of the named function."""
    import ctypes

    cuda = ctypes.CDLL("libcuda.so.1")
    cuda.cuInit(0)
    wrong = 0
    rows = re.findall(r"^VERSION\((\w+), (\d+), (\d), (\w+)\)", open(os.path.join(SHIM, "versions.def")).read(), re.M)
    for name, since, per_thread, function in rows:
        got, status = ctypes.c_void_p(), ctypes.c_int()
        r = cuda.cuGetProcAddress_v2(name.encode(), ctypes.byref(got), int(since), ctypes.c_uint64(2 * int(per_thread)),
                                     ctypes.byref(status))
        try:
            want = ctypes.cast(getattr(cuda, function), ctypes.c_void_p).value
        except AttributeError:
            want = None
        if r == 0 and want and got.value != want:
            wrong += 1
            print("look-up differs:", name, since, per_thread, function)
    return wrong, len(rows)


def toolkit():
    """Header and stub of the newest toolkit there is."""
    for header_path in sorted(glob.glob("/usr/local/cuda*/include/cuda.h"), reverse=True):
        stubs = glob.glob(os.path.join(os.path.dirname(header_path), "../lib*/stubs/libcuda.so"))
        if stubs:
            return header_path, stubs[0]
    print("SKIP: no CUDA toolkit with a stub of the driver here")
    sys.exit(77)


def main(cuda_h=None, libcuda=None):
    odd, rows = (0, 0) if libcuda or not cuda_h else versions_wrong()
    if not cuda_h:
        cuda_h, libcuda = toolkit()
    libcuda = libcuda or driver_path()
    mine, theirs = ours(), header(cuda_h)
    wrong = unknown = 0
    for name, sig in sorted(mine.items()):
        if name not in theirs:
            unknown += 1
            print("not in the header:", name)
        elif sig != theirs[name]:
            wrong += 1
            print("differs:", name, "".join(sig), "header", "".join(theirs[name]))
    symbols = subprocess.run(["nm", "-D", "--defined-only", libcuda], capture_output=True, text=True).stdout
    exported = {line.split()[-1].split("@")[0] for line in symbols.splitlines() if " T cu" in line or " t cu" in line}
    reviewed = {line.split()[0] for line in open(os.path.join(SHIM, "reviewed.txt")) if line[:2] == "cu"}
    pattern = re.compile(r"Launch|Alloc|Create|Map|Import|Memcpy|Memset|MemOp|Prefetch|Reserve|WaitValue|WriteValue")
    fresh = sorted(n for n in exported if pattern.search(n) and n not in mine and n not in reviewed)
    print("new names:", " ".join(fresh))
    print(f"RESULT abi hooks={len(mine)} wrong={wrong} not_in_header={unknown} exported={len(exported)} "
          f"missing_in_driver={len([n for n in mine if n not in exported])} unreviewed={len(fresh)} versions={rows} versions_wrong={odd}")
    return 1 if wrong or fresh or odd else 0


sys.exit(main(*sys.argv[1:]))
