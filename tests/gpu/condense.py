# SPDX-License-Identifier: Apache-2.0
"""condense.py RAW TITLE > TRACE - what record.c wrote, as a small trace: sizes, order and relations of the calls, no addresses.
tests/fakecuda/replay.c has the list of lines. Calls that failed and calls about memory nobody allocated are left out."""
import bisect
import sys


class Ids:
    def __init__(self):
        self.known, self.next = {}, 0

    def new(self, value):
        self.known[value] = self.next
        self.next += 1
        return self.next - 1

    def of(self, value):
        return self.known[value] if value in self.known else self.new(value)


class Ranges:
    """Allocations and reserved ranges by address."""

    def __init__(self):
        self.base, self.info = [], {}

    def add(self, base, size, ident):
        if base not in self.info:
            bisect.insort(self.base, base)
        self.info[base] = (size, ident)

    def drop(self, base):
        self.base.remove(base)
        return self.info.pop(base)[1]

    def at(self, address, size):
        i = bisect.bisect_right(self.base, address) - 1
        if i < 0:
            return None
        base = self.base[i]
        length, ident = self.info[base]
        return f"{ident} {address - base}" if address + size <= base + length else None


def main(path, title):
    memory, reserved, handles, streams, functions, events, graphs, execs = Ranges(), Ranges(), Ids(), Ids(), Ids(), Ids(), Ids(), Ids()
    streams.new(0)
    ids, out = 0, [f"# {title}"]
    for line in open(path):
        call, _, after = line.partition(" = ")
        name, *args = call.split()
        a = [int(x, 16) for x in args]
        result = after.split()
        if not result or result[0] != "0":
            continue
        got, more = int(result[1], 16), [int(x, 16) for x in result[2:]]
        short = name.replace("_ptsz", "").replace("_ptds", "").removesuffix("_v2")
        stream = lambda value: streams.of(value if value > 2 else 0)  # noqa: E731
        if short == "cuMemAlloc":
            out.append(f"A {ids} {a[1]}")
            memory.add(got, a[1], ids)
            ids += 1
        elif short == "cuMemFree" and a[0] in memory.info:
            out.append(f"F {memory.drop(a[0])}")
        elif short == "cuMemAddressReserve":
            out.append(f"R {ids} {a[1]}")
            reserved.add(got, a[1], ids)
            ids += 1
        elif short == "cuMemCreate":
            out.append(f"C {handles.new(got)} {a[1]}")
        elif short == "cuMemMap" and reserved.at(a[0], a[1]):
            out.append(f"M {reserved.at(a[0], a[1])} {a[1]} {handles.of(a[3])}")
        elif short == "cuMemSetAccess" and reserved.at(a[0], a[1]):
            out.append(f"X {reserved.at(a[0], a[1])} {a[1]}")
        elif short == "cuMemUnmap" and reserved.at(a[0], a[1]):
            out.append(f"U {reserved.at(a[0], a[1])} {a[1]}")
        elif short == "cuMemRelease" and a[0] in handles.known:
            out.append(f"D {handles.known.pop(a[0])}")
        elif short in ("cuStreamCreate", "cuStreamCreateWithPriority"):
            out.append(f"S {streams.new(got)}")
        elif short in ("cuLaunchKernel", "cuLaunchCooperativeKernel"):
            out.append(f"L {functions.of(a[0])} {stream(a[8])} {a[1]}")
        elif short == "cuLaunchKernelEx" and len(more) == 4:
            out.append(f"L {functions.of(a[1])} {stream(more[3])} {more[0]}")
        elif short in ("cuMemcpyHtoDAsync", "cuMemcpyHtoD") and memory.at(a[0], a[2]):
            out.append(f"H {memory.at(a[0], a[2])} {a[2]} {stream(a[3]) if len(a) > 3 else 0}")
        elif short in ("cuMemcpyDtoHAsync", "cuMemcpyDtoH") and memory.at(a[1], a[2]):
            out.append(f"G {memory.at(a[1], a[2])} {a[2]} {stream(a[3]) if len(a) > 3 else 0}")
        elif short in ("cuMemcpyDtoDAsync", "cuMemcpyAsync") and memory.at(a[0], a[2]) and memory.at(a[1], a[2]):
            out.append(f"T {memory.at(a[0], a[2])} {memory.at(a[1], a[2])} {a[2]} {stream(a[3])}")
        elif short in ("cuMemsetD8Async", "cuMemsetD32Async", "cuMemsetD16Async"):
            size = a[2] * {"8": 1, "2": 4, "6": 2}[short[9]]
            if memory.at(a[0], size):
                out.append(f"Z {memory.at(a[0], size)} {size} {stream(a[3])}")
        elif short == "cuStreamSynchronize":
            out.append(f"W {stream(a[0])}")
        elif short == "cuCtxSynchronize":
            out.append("N")
        elif short in ("cuEventRecord", "cuEventRecordWithFlags"):
            out.append(f"V {events.of(a[0])} {stream(a[1])}")
        elif short in ("cuEventQuery", "cuEventSynchronize"):
            out.append(f"E {events.of(a[0])}")
        elif short == "cuStreamBeginCapture":
            out.append(f"B {stream(a[0])}")
        elif short == "cuStreamEndCapture":
            out.append(f"K {stream(a[0])} {graphs.next}")
            graphs.next += 1
        elif short.startswith("cuGraphInstantiate"):
            out.append(f"I {execs.new(got)} {graphs.next - 1}")
        elif short == "cuGraphLaunch" and a[0] in execs.known:
            out.append(f"J {execs.known[a[0]]} {stream(a[1])}")
        elif short == "cuMemGetInfo":
            out.append("P")
    print("\n".join(out))


main(*sys.argv[1:])
