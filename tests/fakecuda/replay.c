/* SPDX-License-Identifier: Apache-2.0 */
/* replay.c - plays the driver calls of a real program, recorded on a GPU, against the fake driver with the library in
 * front.
 *
 * replay TRACE [move]: every allocation is stamped and its stamps are checked when it goes; with `move` this program is
 * the node side as well, and has memory spilled, promoted, evicted and reloaded between the calls. At the end the
 * library must have counted what the trace says. Lines: A id bytes, F id: plain memory. R id bytes, C handle bytes, M
 * id offset bytes handle, X id offset bytes, U id offset bytes, D handle: mapped memory. S stream; L function stream
 * grid; H, G id offset bytes stream: copies in and out; T id offset id offset bytes stream; Z id offset bytes stream: a
 * fill; W stream, N, E event: waits; V event stream; B stream, K stream graph: a capture; I exec graph, J exec stream;
 * P: how much memory is free?
 */
#include <inttypes.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdlib.h>

#define PLAY_FAIL give_up
static void __attribute__((format(printf, 1, 2), noreturn)) give_up(const char *format, ...);

#include "calls.h"
#include "unit/shim_play.h"

#define IDS 65536
#define STREAMS 256
#define EVENTS 4096
#define EXECS 256
#define FUNCTIONS 48
#define HOST_BYTES (64ull << 20)
#define MOVE_EVERY 150
#define STAMP 0x9e3779b97f4a7c15ull

#define HOOK_SPECIAL(name, group, act, params, args) CUresult name params;
#define HOOK_TRACK HOOK_SPECIAL
#define HOOK_COPY(name, group, act, params, args, stream, n) CUresult name params;
#include "shim/hooks.def"

static struct {
    CUdeviceptr at;
    uint64_t size;
    bool live, dirty; /* dirty: copies have been over the stamps */
} memory[IDS];
static CUmemGenericAllocationHandle handles[IDS];
static CUstream streams[STREAMS];
static CUevent events[EVENTS];
static CUgraph graphs[EXECS];
static CUgraphExec execs[EXECS];
static CUfunction functions[FUNCTIONS];
static char *host;
static uint64_t launches, graph_launches, copies, captured, held, line_number;
static bool capturing;

static void give_up(const char *format, ...)
{
    va_list ap;

    (void)printf("not ok 1 - line %" PRIu64 ": ", line_number);
    va_start(ap, format);
    (void)vprintf(format, ap);
    va_end(ap);
    (void)printf("\n1..1\n");
    (void)fflush(stdout);
    _Exit(1);
}

static void must(CUresult r, const char *what)
{
    if (r != CUDA_SUCCESS)
        give_up("%s gave %d", what, r);
}

static uint64_t *stamp_at(uint64_t id, bool last)
{
    return (uint64_t *)(uintptr_t)(memory[id].at + (last ? memory[id].size / 8 * 8 - 8 : 0));
}

static void stamp(uint64_t id)
{
    *stamp_at(id, false) = *stamp_at(id, true) = id * STAMP;
}

static void stamp_check(uint64_t id)
{
    must(cuCtxSynchronize(), "cuCtxSynchronize");
    if (!memory[id].dirty && (*stamp_at(id, false) != id * STAMP || *stamp_at(id, true) != id * STAMP))
        give_up("allocation %" PRIu64 " has lost its content", id);
}

static void nothing(const uint64_t *args)
{
    (void)args;
}

/* Refused once above the limit, so that a framework drops its cache: asks again, as one does. */
static void allocate(uint64_t id, uint64_t size)
{
    CUresult r = cuMemAlloc_v2(&memory[id].at, size);

    if (r == CUDA_ERROR_OUT_OF_MEMORY)
        r = cuMemAlloc_v2(&memory[id].at, size);
    must(r, "cuMemAlloc_v2");
    memory[id].size = size;
    memory[id].live = true;
    held += size >= 2 << 20 ? (size + (2 << 20) - 1) / (2 << 20) * (2 << 20) : size;
    if (size >= 16)
        stamp(id);
    else
        memory[id].dirty = true;
}

static void drop(uint64_t id)
{
    uint64_t size = memory[id].size;

    stamp_check(id);
    must(cuMemFree_v2(memory[id].at), "cuMemFree_v2");
    memory[id].live = memory[id].dirty = false;
    held -= size >= 2 << 20 ? (size + (2 << 20) - 1) / (2 << 20) * (2 << 20) : size;
}

static void map_line(char op, const uint64_t *v)
{
    const struct cuda_mem_prop prop = { .type = CU_MEM_ALLOCATION_TYPE_PINNED,
                                        .handle_types = 1,
                                        .location = { CU_MEM_LOCATION_TYPE_DEVICE, 0 } };
    const struct cuda_access access = { { CU_MEM_LOCATION_TYPE_DEVICE, 0 }, CU_MEM_ACCESS_READWRITE };
    CUdeviceptr at = op == 'R' || op == 'C' || op == 'D' ? 0 : memory[v[0]].at + v[1];

    if (op == 'R') {
        must(cuMemAddressReserve(&memory[v[0]].at, v[1], 0, 0, 0), "cuMemAddressReserve");
    } else if (op == 'C') {
        if (cuMemCreate(&handles[v[0]], v[1], &prop, 0) != CUDA_SUCCESS)
            must(cuMemCreate(&handles[v[0]], v[1], &prop, 0), "cuMemCreate");
        held += v[1];
    } else if (op == 'M') {
        must(cuMemMap(at, v[2], 0, handles[v[3]], 0), "cuMemMap");
    } else if (op == 'X') {
        must(cuMemSetAccess(at, v[2], &access, 1), "cuMemSetAccess");
        *(uint64_t *)(uintptr_t)at = v[1] * STAMP + 1;
    } else if (op == 'U') {
        must(cuCtxSynchronize(), "cuCtxSynchronize");
        if (*(uint64_t *)(uintptr_t)at != v[1] * STAMP + 1 && *(uint64_t *)(uintptr_t)at != 0)
            give_up("a mapping of range %" PRIu64 " has lost its content", v[0]);
        must(cuMemUnmap(at, v[2]), "cuMemUnmap");
        held -= v[2];
    } else {
        must(cuMemRelease(handles[v[0]]), "cuMemRelease");
    }
}

static void copy_line(char op, const uint64_t *v)
{
    uint64_t n = op == 'T' ? v[4] : v[2];
    CUstream stream = streams[(op == 'T' ? v[5] : v[3]) % STREAMS];

    n = n < HOST_BYTES ? n : HOST_BYTES;
    copies += !capturing; /* recorded, it is none */
    if (op != 'G')
        memory[v[0]].dirty = true;
    if (op == 'H')
        must(cuMemcpyHtoDAsync_v2(memory[v[0]].at + v[1], host, n, stream), "cuMemcpyHtoDAsync");
    else if (op == 'G')
        must(cuMemcpyDtoHAsync_v2(host, memory[v[0]].at + v[1], n, stream), "cuMemcpyDtoHAsync");
    else if (op == 'T')
        must(cuMemcpyDtoDAsync_v2(memory[v[0]].at + v[1], memory[v[2]].at + v[3], n, stream), "cuMemcpyDtoDAsync");
    else
        must(cuMemsetD8Async(memory[v[0]].at + v[1], 0, n, stream), "cuMemsetD8Async");
}

static void work_line(char op, const uint64_t *v)
{
    static int mode = CU_STREAM_CAPTURE_MODE_RELAXED; /* in which PyTorch allocates while it captures */
    size_t free_bytes, total;

    if (op == 'S') {
        must(cuStreamCreate(&streams[v[0] % STREAMS], 1), "cuStreamCreate");
    } else if (op == 'L') {
        must(cuLaunchKernel(functions[v[0] % FUNCTIONS], (unsigned int)v[2], 1, 1, 32, 1, 1, 0, streams[v[1] % STREAMS],
                            NULL, NULL),
             "cuLaunchKernel");
        launches += !capturing;
        captured += capturing;
    } else if (op == 'W') {
        must(capturing ? 0 : cuStreamSynchronize(streams[v[0] % STREAMS]), "cuStreamSynchronize");
    } else if (op == 'N') {
        must(cuCtxSynchronize(), "cuCtxSynchronize");
    } else if (op == 'V') {
        if (!events[v[0] % EVENTS])
            must(cuEventCreate(&events[v[0] % EVENTS], 2), "cuEventCreate");
        must(capturing ? 0 : cuEventRecord(events[v[0] % EVENTS], streams[v[1] % STREAMS]), "cuEventRecord");
    } else if (op == 'E') {
        must(events[v[0] % EVENTS] && !capturing ? cuEventSynchronize(events[v[0] % EVENTS]) : 0, "cuEventSynchronize");
    } else if (op == 'B') {
        must(cuStreamBeginCapture_v2(streams[v[0] % STREAMS], 0), "cuStreamBeginCapture");
        must(cuThreadExchangeStreamCaptureMode(&mode), "cuThreadExchangeStreamCaptureMode");
        capturing = true;
    } else if (op == 'K') {
        must(cuStreamEndCapture(streams[v[0] % STREAMS], &graphs[v[1] % EXECS]), "cuStreamEndCapture");
        must(cuThreadExchangeStreamCaptureMode(&mode), "cuThreadExchangeStreamCaptureMode");
        capturing = false;
    } else if (op == 'I') {
        must(cuGraphInstantiateWithFlags(&execs[v[0] % EXECS], graphs[v[1] % EXECS], 0), "cuGraphInstantiateWithFlags");
    } else if (op == 'J') {
        must(cuGraphLaunch(execs[v[0] % EXECS], streams[v[1] % STREAMS]), "cuGraphLaunch");
        graph_launches++;
    } else {
        must(cuMemGetInfo_v2(&free_bytes, &total), "cuMemGetInfo_v2");
    }
}

/* What a node side may ask for at any moment. */
static void move(uint64_t turn)
{
    int64_t r;

    if (capturing)
        return;
    if (turn % 3 < 2) {
        (void)command(turn % 3 ? OP_PROMOTE : OP_SPILL_TO, turn % 3 ? 0 : stat_of("used") / 2 + 1);
        return;
    }
    __atomic_store_n(&page->control.lease_until_ns, now_ns() + 60000000000ull, __ATOMIC_SEQ_CST);
    __atomic_store_n(&page->control.gate, GATE_CLOSED, __ATOMIC_SEQ_CST);
    r = command(OP_EVICT_ALL, 0);
    if (r < 0)
        give_up("evict gave %" PRId64, r);
    if (fake_device_used(0) > stat_of("used") + (1u << 20)) /* the fake's pages are 4 KiB */
        give_up("%" PRIu64 " bytes are left on the device, %" PRIu64 " counted", fake_device_used(0), stat_of("used"));
    r = command(OP_RELOAD_ALL, 0);
    if (r < 0)
        give_up("reload gave %" PRId64, r);
    __atomic_store_n(&page->control.gate, GATE_OPEN, __ATOMIC_SEQ_CST);
}

static void line_play(const char *text)
{
    uint64_t v[6] = { 0 };
    char op = 0;
    int n = sscanf(text, "%c %" SCNu64 " %" SCNu64 " %" SCNu64 " %" SCNu64 " %" SCNu64 " %" SCNu64, &op, &v[0], &v[1],
                   &v[2], &v[3], &v[4], &v[5]);

    if (n < 1 || op == '#' || op == '\n')
        return;
    if (v[0] >= IDS || (op == 'T' && v[2] >= IDS) || (op == 'M' && v[3] >= IDS))
        give_up("a number is too large");
    if (op == 'A')
        allocate(v[0], v[1]);
    else if (op == 'F')
        drop(v[0]);
    else if (strchr("RCMXUD", op))
        map_line(op, v);
    else if (strchr("HGTZ", op))
        copy_line(op, v);
    else if (strchr("SLWNVEBKIJP", op))
        work_line(op, v);
    else
        give_up("unknown line '%c'", op);
}

static void begin(void)
{
    CUcontext ctx;

    must(cuInit(0), "cuInit");
    must(cuDevicePrimaryCtxRetain(&ctx, 0), "cuDevicePrimaryCtxRetain");
    must(cuCtxSetCurrent(ctx), "cuCtxSetCurrent");
    for (int i = 0; i < FUNCTIONS; i++)
        functions[i] = fake_kernel_register("recorded", nothing, 0, 0);
    host = mmap(NULL, HOST_BYTES, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (host == MAP_FAILED || play_begin())
        give_up("no process page: is the library preloaded?");
}

int main(int argc, char **argv)
{
    FILE *f = argc > 1 ? fopen(argv[1], "re") : NULL;
    bool moves = argc > 2;
    char text[256];

    if (!f)
        return 1;
    begin();
    while (fgets(text, sizeof(text), f)) {
        line_number++;
        line_play(text);
        if (moves && line_number % MOVE_EVERY == 0)
            move(line_number / MOVE_EVERY);
    }
    (void)fclose(f);
    for (uint64_t id = 0; id < IDS; id++)
        if (memory[id].live)
            stamp_check(id);
    if (stat_of("launches") != launches || stat_of("graph_launches") != graph_launches || stat_of("copies") != copies)
        give_up("counted %" PRIu64 " launches, %" PRIu64 " graphs, %" PRIu64 " copies; the trace has %" PRIu64
                ", %" PRIu64 ", %" PRIu64,
                stat_of("launches"), stat_of("graph_launches"), stat_of("copies"), launches, graph_launches, copies);
    if (stat_of("used") + stat_of("host_backed") > held + (64u << 20) ||
        stat_of("used") + stat_of("host_backed") < held / 2)
        give_up("counted %" PRIu64 " bytes, the trace holds %" PRIu64, stat_of("used") + stat_of("host_backed"), held);
    (void)printf("ok 1 - %" PRIu64 " lines, %" PRIu64 " launches (%" PRIu64 " more captured), %" PRIu64
                 " copies, %" PRIu64 " MiB held\n1..1\n",
                 line_number, launches, captured, copies, held >> 20);
    return 0;
}
