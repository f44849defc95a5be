# SPDX-License-Identifier: Apache-2.0
"""As much of torch as tests of the library's hooks need."""


class cuda:
    trimmed = 0

    @staticmethod
    def is_initialized():
        return True

    @staticmethod
    def current_device():
        return 0

    @staticmethod
    def memory_stats():
        if cuda.trimmed < 0:
            raise RuntimeError("no statistics")
        names = ("allocated", "reserved", "active", "inactive_split")
        return {f"{name}_bytes.all.{when}": (10 * i + k) << 20 for i, name in enumerate(names, 1) for k, when in enumerate(("current", "peak"))}

    @staticmethod
    def empty_cache():
        cuda.trimmed += 1
