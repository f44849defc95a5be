# SPDX-License-Identifier: Apache-2.0
"""The driver as the tests' Python programs use it: a context on the first GPU, and what the library inside counts."""
import ctypes

cuda = ctypes.CDLL("libcuda.so.1")
stat = ctypes.CDLL(None).muster_gpu_stat
stat.restype = ctypes.c_uint64
stat.argtypes = [ctypes.c_char_p]


def context():
    ctx = ctypes.c_void_p()
    cuda.cuInit(0)
    cuda.cuDevicePrimaryCtxRetain(ctypes.byref(ctx), 0)
    cuda.cuCtxSetCurrent(ctx)
