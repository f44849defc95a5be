/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/* mem.h - the memory half of shim.h, which includes it. */
#include <stdbool.h>
#include <stdint.h>

#include "shim/cuda_abi.h"
#include "shim/inside.h"
#include "shim/page.h"

/* --- account.c */
int mem_reserve(int gpu, enum page_class class, uint64_t bytes); /* 0 or -ENOMEM: above the cap */
void mem_force(int gpu, enum page_class class, uint64_t bytes);  /* counts it whatever the cap says */
void mem_give_back(int gpu, enum page_class class, uint64_t bytes);
void mem_set_class(int gpu, enum page_class class, uint64_t bytes); /* the class now holds exactly this */
bool mem_soft_refuse(int gpu, uint64_t bytes);
uint64_t mem_round(uint64_t bytes);
uint64_t mem_cap(int gpu);
uint64_t mem_step_peak(int gpu); /* the most that was held in the step that ends now */
void mem_hole_tell(int gpu);     /* helper: what is left of the limit, into the page */
void mem_context_learn(int gpu); /* helper: the context is as large as the node side has seen */
bool mem_need_wait(int gpu, uint64_t bytes, uint32_t *tries);
bool mem_crowded(int gpu, uint64_t bytes); /* the driver refused: would it fit on the card alone? */
/* What an address or handle was given for. `class` CLASS_COUNT is host memory. */
#define TABLE_HANDLE ((uint64_t)1 << 63)
#define TABLE_ARRAY ((uint64_t)1 << 62)
#define TABLE_HEAP ((uint64_t)1 << 61)
struct charge {
    uint64_t key, bytes;
    int gpu;
    enum page_class class;
    uint32_t context; /* that it goes with: context.h; 0 none */
};
/* Of the calling thread's context, but for handles and what is of a pool. */
bool table_put(uint64_t key, uint64_t bytes, int gpu, enum page_class class);
bool table_take(uint64_t key, struct charge *ret);
void table_back(const struct charge *charge); /* the driver would not free it after all */
void table_ended(uint32_t context);           /* it took with it what was its own: see context_ended() */
void table_pools_ended(int gpu);
bool table_ref(uint64_t key, int32_t change, int32_t *ret_refs); /* references of a handle */
void signals_set(const uint64_t *set, uint64_t *old);            /* of this thread, as the kernel has them */
void spin_lock(_Atomic uint32_t *lock);
void spin_unlock(_Atomic uint32_t *lock);
/* On the way of a launch, where a system call is too much. False: a handler has interrupted this thread in such a lock;
 * it goes without. */
bool spin_light(_Atomic uint32_t *lock);
void spin_light_end(_Atomic uint32_t *lock);
/* No handler of the program's runs in between, but for those of its own faults: one that jumped out would leave a count
 * without its memory, or memory that nobody counts. Never around a wait. */
void signals_hold(struct inside_mark *mark); /* of the caller */
void signals_release(void);
/* One thread at a time, and nobody waits: false, somebody is at it. What a thread has held for a second it left behind,
 * by a jump: it is taken over. */
bool flag_try(_Atomic uint64_t *flag);
void flag_end(_Atomic uint64_t *flag);
/* pool.c, graph memory */
void mem_pool_refresh(int gpu);
void mem_graph_refresh(int gpu);
void mem_graph_look(int gpu); /* helper: what graphs have taken since */
void mem_pool_ended(int gpu); /* its own context has been emptied, and what pools and graphs held with it */

/* --- vmm.c: segments of our own making */
#define VMM_CHUNK (64 * MIB)
#define VMM_GRAIN (2 * MIB)
#define VMM_NONE UINT32_MAX
#define VMM_FULL CUDA_ERROR_NOT_SUPPORTED /* of vmm_alloc(): the tables are, not the card */
enum chunk_where { CHUNK_NONE, CHUNK_DEVICE, CHUNK_HOST, CHUNK_SAVED };
struct chunk {
    CUmemGenericAllocationHandle handle;
    uint64_t size, saved_at;
    uint32_t next;
    uint16_t where; /* enum chunk_where */
    uint16_t types; /* how its handle may be shared: new memory for it is made alike */
};
enum segment_kind { SEGMENT_FREE, SEGMENT_OURS, SEGMENT_PIECE }; /* a piece is the program's own mapping: mem_vmm.c */
struct segment {
    CUdeviceptr base;
    uint64_t size, born;
    uint32_t first;   /* chunk */
    uint32_t context; /* of one of ours: that it goes with, as a plain allocation does; 0 none */
    int16_t gpu;
    uint16_t live;  /* enum segment_kind */
    uint16_t peers; /* a bit for each other GPU that has access */
    uint16_t fixed; /* somebody else holds its memory: it may not move */
};
bool vmm_eligible(int gpu, uint64_t bytes);
CUresult vmm_alloc(int gpu, uint64_t bytes, bool host, CUdeviceptr *ret);
bool vmm_free(CUdeviceptr ptr, CUresult *ret); /* false: not ours */
void vmm_ended(uint32_t context);
bool vmm_range(CUdeviceptr ptr, CUdeviceptr *base, uint64_t *size);
void vmm_native_from_now(void);
CUresult vmm_create(int gpu, uint64_t size, bool host, uint32_t types, CUmemGenericAllocationHandle *ret);
CUresult vmm_access(int gpu, uint32_t peers, CUdeviceptr at, uint64_t size);
void vmm_peer(int owner, int peer, bool access); /* memory of `owner` is readable from `peer`, or no longer */
void vmm_fix(CUdeviceptr ptr);                   /* the segment there may not move from now on */
bool vmm_piece_put(const struct segment *piece, const struct chunk *chunk);
bool vmm_piece_take(CUdeviceptr base, struct chunk *ret); /* no longer movable; where its memory is now */
bool vmm_piece_peers(CUdeviceptr base, uint32_t peers);
/* For the helper while everything is held: segments by number, their chunks by link. */
uint32_t vmm_segments(void);
struct segment *vmm_segment(uint32_t index);
/* Where and since when segment i is; false: there is none. Safe beside whoever makes and frees segments. */
bool vmm_look(uint32_t i, uint64_t *ret_base, uint64_t *ret_size, uint64_t *ret_born);
struct chunk *vmm_chunk(uint32_t index);

/* --- waiter.c: a thread that waits for the GPU */
int waiter_sync(CUcontext ctx, uint64_t until_ns, CUresult *ret); /* helper: the driver's answer; or as device_wait() */
bool waiter_inside(void);                                         /* it is in the driver */
void waiter_forked(void);
/* Helper, of a move: it begins and ends; the helper goes into the driver to wait for a copy, and was there. False: for
 * so long that the move was given up. Nothing is held any more, so nothing may be switched. */
void watch_begin(void);
void watch_end(void);
void watch_wait(void);
bool watch_waited(void);

/* --- gate/short_queue.c: a short queue while memory is being moved or lies in host memory */
void brief_set(bool moving);      /* helper: a move is coming, or over; host memory in use keeps it short as well */
void brief_wait(void);            /* before a launch: at most a few are in flight */
void brief_mark(CUstream stream); /* after it */

/* --- touch.c: which segments does a step use? */
extern _Atomic uint32_t touch_on;
void touch_step(uint64_t seq);                                /* a step is over */
void touch_scan(CUfunction f, void **params, void **extra);   /* a launch of the step that is looked at */
uint32_t touch_order(int gpu, bool hottest, uint32_t *order); /* segments, coldest first; returns how many */
#define TOUCH_SEGMENTS 16384u

/* --- spill.c, evict.c: run by the helper */
#define MOVE_ALL (-1)
bool move_begin(int gpu, uint64_t deadline_ns); /* holds all submissions, waits for the device; MOVE_ALL: for each */
bool move_on(int gpu);                          /* of MOVE_ALL: what is copied next is of this GPU */
void move_end(void);
/* 0 when all work of the process is complete; -EIO the driver's error, -ETIMEDOUT, or -EBUSY: an earlier wait has not
 * ended. The page's note says which. */
int device_wait(uint64_t until_ns);
struct move_times {
    uint64_t trim_ns, wait_ns, copy_ns;
};
const struct move_times *move_times(void); /* of the last spill or promotion */
CUstream move_stream(void);
bool spill_wanted(void); /* a GPU holds more than its limit */
int64_t spill_to(int gpu, uint64_t target, uint64_t deadline_ns);
int64_t spill_promote(int gpu, uint64_t most, uint64_t deadline_ns);
/* --- home.c: promotion at the ends of steps, a part of each; asked for by a command, looked at every turn */
void home_begin(uint64_t seq, int gpu, uint64_t most, uint64_t deadline_ns);
void home_drop(void);
bool home_look(uint64_t *ret_seq, int64_t *ret_moved, uint64_t *ret_start); /* true: it is over */
int64_t evict_all(uint32_t unpin, uint64_t deadline_ns); /* unpin: permille of the area to let go of */
int64_t evict_reload(uint64_t deadline_ns);
bool evict_prepare(void); /* one block more; true: more to do */
void evict_want(uint64_t bytes);

/* --- stock.c: host chunks held ready */
CUmemGenericAllocationHandle stock_take(int gpu, uint64_t size); /* 0: none of that size */
void stock_give(int gpu, CUmemGenericAllocationHandle handle,
                uint64_t size);                       /* for the next who wants one, or let go of */
void stock_drop(CUmemGenericAllocationHandle handle); /* let go of */
bool stock_make(int gpu, uint64_t want); /* helper: one more of those missing if so much had to leave now */
bool stock_fill(int gpu);                /* helper: one step; true: more to do */
void stock_shut(void);                   /* helper: no window is open */
/* --- window.c: where host memory can be written, whatever the program's addresses show */
CUdeviceptr window_open(int gpu, CUmemGenericAllocationHandle handle, uint64_t size); /* 0: cannot be */
void window_close(CUmemGenericAllocationHandle handle);
void window_close_all(void);

/* --- host.c: helper: host memory that can be had, and that may be taken for spills of this GPU */
uint64_t host_available(void);
uint64_t host_spare(void); /* of the machine and the cgroup */
/* May so much leave a GPU, of which `fresh` is host memory that is not there yet? False: what forbids it is noted. */
bool host_holds(int gpu, uint64_t bytes, uint64_t fresh);
uint64_t host_room(int gpu);
void host_look(uint64_t now_ns);          /* helper: how much there is for others, once a second */
bool host_allow(int gpu, uint64_t bytes); /* anybody: may so much more lie in host memory? */

/* --- area.c: host memory for what is evicted */
#define AREA_BLOCK (256 * MIB)
uint32_t area_blocks(void);
bool area_add(int gpu);             /* a block more, or a piece of one. False: no room */
void area_unpin(uint32_t permille); /* the driver lets go of so much of it; 0 = of nothing */
CUresult area_copy(int gpu, CUdeviceptr at, uint64_t size, uint64_t where, bool out); /* queued on the moves' stream */

/* --- mem_view.c */
void view_moved(int gpu); /* its memory is another GPU's now */
