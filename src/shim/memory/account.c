/* SPDX-License-Identifier: Apache-2.0 */
/* account.c - how much a process holds, and the cap on it.
 *
 * Bytes are reserved with one atomic add before the driver is asked and given back when it refuses, so two threads can
 * never both pass a check that only one may pass. The table remembers what each address and handle was given for; it
 * has a fixed size, and what does not fit is passed on, uncounted, and reported.
 */
#include <errno.h>
#include <sched.h>
#include <signal.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "shim/shim.h"

#define TABLE_SLOTS 65536u
#define TABLE_FILL (TABLE_SLOTS / 8 * 7)
/* A framework has this long to give its cache back and ask again; longer while it goes on asking. */
#define SOFT_NS (500 * NSEC_MSEC)
#define SOFT_MOST_NS (10000 * NSEC_MSEC)
#define NEED_TRIES 15u
#define LIGHT_NS (10 * NSEC_MSEC)
#define FLAG_OLD_NS NSEC_SEC

struct entry {
    uint64_t key, bytes;
    int32_t refs;
    int16_t gpu;
    uint16_t class;
    uint32_t context;
};

static struct entry table[TABLE_SLOTS];
static uint32_t table_used;
static _Atomic uint32_t table_lock;

/* By system call: the C library's own is newer than what we may need. The kernel's set is the first 8 bytes. */
void signals_set(const uint64_t *set, uint64_t *old)
{
    (void)syscall(SYS_rt_sigprocmask, SIG_SETMASK, set, old, sizeof(*set));
}

#define FAULTS                                                                                                         \
    (1ull << (SIGSEGV - 1) | 1ull << (SIGBUS - 1) | 1ull << (SIGFPE - 1) | 1ull << (SIGILL - 1) |                      \
     1ull << (SIGTRAP - 1) | 1ull << (SIGSYS - 1) | 1ull << (SIGABRT - 1))

/* A fault's handler may have jumped out from under the last hold: then that one is over. */
void signals_hold(struct inside_mark *mark)
{
    const uint64_t most = ~FAULTS;
    uint64_t before;

    if (unlikely(shim_thread.locks) && frame_gone(shim_thread.locks_at, MARK_HOLD, (uintptr_t)mark))
        shim_thread.locks = 0;
    frame_mark(mark, MARK_HOLD);
    signals_set(&most, &before);
    if (shim_thread.locks++ == 0) {
        shim_thread.signals = before;
        shim_thread.locks_at = (uintptr_t)mark;
    }
}

void signals_release(void)
{
    if (--shim_thread.locks == 0)
        signals_set(&shim_thread.signals, NULL);
}

bool flag_try(_Atomic uint64_t *flag)
{
    uint64_t now = clock_ns(), was = atomic_load(flag);

    return (was == 0 || now - was > FLAG_OLD_NS) && atomic_compare_exchange_strong(flag, &was, now);
}

void flag_end(_Atomic uint64_t *flag)
{
    atomic_store(flag, 0);
}

/* A handler of the program that runs while its thread is in here, and calls us, would wait for itself: none runs. */
void spin_lock(_Atomic uint32_t *lock)
{
    const uint64_t all = UINT64_MAX;

    if (unlikely(shim_thread.locks) &&
        frame_gone(shim_thread.locks_at, MARK_HOLD, (uintptr_t)__builtin_frame_address(0)))
        shim_thread.locks = 0;
    if (shim_thread.locks == 0) {
        uint64_t before;

        signals_set(&all, &before);
        shim_thread.signals = before;
        shim_thread.locks_at = UINTPTR_MAX; /* nothing faults under a lock */
    }
    shim_thread.locks++;
    while (atomic_exchange_explicit(lock, 1, memory_order_acquire))
        sched_yield();
}

void spin_unlock(_Atomic uint32_t *lock)
{
    atomic_store_explicit(lock, 0, memory_order_release);
    signals_release();
}

/* Whose lock it is: never 0, and of this thread alone. */
static uint32_t light_word(void)
{
    return (uint32_t)(thread_own() >> 4) | 1;
}

/* It was jumped out of while it held the lock, or on the way. Others may have taken it over since. */
static void light_drop(void)
{
    uint32_t mine = light_word();

    (void)atomic_compare_exchange_strong(shim_thread.light_lock, &mine, 0);
    shim_thread.light = 0;
}

/* Whoever has had it for so long sleeps or has jumped out. What such locks guard are estimates and shares: better two
 * at once than nobody for good. */
static void light_wait(_Atomic uint32_t *lock, uint32_t word)
{
    uint64_t until = clock_ns() + LIGHT_NS;
    uint32_t none = 0;

    while (!atomic_compare_exchange_strong(lock, &none, word)) {
        none = 0;
        if (clock_ns() > until) {
            atomic_store(lock, word);
            return;
        }
        sched_yield();
    }
}

bool spin_light(_Atomic uint32_t *lock)
{
    uintptr_t here = (uintptr_t)__builtin_frame_address(0);
    uint32_t none = 0, word = light_word();

    if (unlikely(shim_thread.light) && frame_left(shim_thread.light_at, here, thread_own()))
        light_drop();
    if (shim_thread.light)
        return false;
    shim_thread.light_at = here;
    shim_thread.light_lock = lock;
    shim_thread.light = 1;
    atomic_signal_fence(memory_order_seq_cst);
    if (unlikely(
            !atomic_compare_exchange_strong_explicit(lock, &none, word, memory_order_acquire, memory_order_relaxed)))
        light_wait(lock, word);
    return true;
}

void spin_light_end(_Atomic uint32_t *lock)
{
    uint32_t mine = light_word();

    (void)atomic_compare_exchange_strong_explicit(lock, &mine, 0, memory_order_release, memory_order_relaxed);
    atomic_signal_fence(memory_order_seq_cst);
    shim_thread.light = 0;
}

static struct page_memory *memory_of(int gpu)
{
    return gpu >= 0 && gpu < PAGE_GPUS ? &shim.page->memory[gpu] : NULL;
}

uint64_t mem_round(uint64_t bytes)
{
    return bytes > MIB ? (bytes + 2 * MIB - 1) / (2 * MIB) * (2 * MIB) : bytes;
}

uint64_t mem_cap(int gpu)
{
    return gpu >= 0 && gpu < PAGE_GPUS ? __atomic_load_n(&shim.page->limit[gpu].cap_bytes, __ATOMIC_RELAXED) : 0;
}

static void word_raise(uint64_t *word, uint64_t to)
{
    uint64_t seen = __atomic_load_n(word, __ATOMIC_RELAXED);

    while (seen < to && !__atomic_compare_exchange_n(word, &seen, to, true, __ATOMIC_RELAXED, __ATOMIC_RELAXED))
        ;
}

static void peak_raise(int gpu, uint64_t used)
{
    word_raise(&shim.page->memory[gpu].peak, used);
    word_raise(&shim.page->moves[gpu].step_peak, used);
}

uint64_t mem_step_peak(int gpu)
{
    uint64_t used = __atomic_load_n(&shim.page->memory[gpu].used, __ATOMIC_RELAXED);
    uint64_t peak = __atomic_exchange_n(&shim.page->moves[gpu].step_peak, used, __ATOMIC_RELAXED);

    return peak > used ? peak : used; /* a step that frees at its end had it all the same */
}

void mem_hole_tell(int gpu)
{
    const struct page_memory *m = &shim.page->memory[gpu];
    uint64_t cap = mem_cap(gpu), used = __atomic_load_n(&m->used, __ATOMIC_RELAXED), room = m->total_bytes;

    if (cap && cap < room)
        room = cap;
    room = room > used ? room - used : 0;
    __atomic_store_n(&shim.page->moves[gpu].largest_hole, room / VMM_GRAIN * VMM_GRAIN, __ATOMIC_RELAXED);
}

/* Until the node side has seen it a fixed figure holds. What it says is only believed of a card that has as much. */
void mem_context_learn(int gpu)
{
    struct page_memory *m = &shim.page->memory[gpu];
    uint64_t seen = __atomic_load_n(&shim.page->limit[gpu].context_bytes, __ATOMIC_RELAXED);
    uint64_t old = __atomic_load_n(&m->class_bytes[CLASS_CONTEXT], __ATOMIC_RELAXED);

    if (shim.context_told || seen == 0 || seen == old || seen > m->total_bytes)
        return;
    mem_set_class(gpu, CLASS_CONTEXT, seen);
    if (seen < old) /* it never held that much */
        __atomic_fetch_sub(&m->peak, old - seen, __ATOMIC_RELAXED);
    if (!enter_context_of(gpu)) /* destroyed meanwhile */
        mem_set_class(gpu, CLASS_CONTEXT, 0);
}

void mem_force(int gpu, enum page_class class, uint64_t bytes)
{
    struct page_memory *m = memory_of(gpu);

    if (!m)
        return;
    peak_raise(gpu, __atomic_add_fetch(&m->used, bytes, __ATOMIC_SEQ_CST));
    __atomic_fetch_add(&m->class_bytes[class], bytes, __ATOMIC_RELAXED);
}

int mem_reserve(int gpu, enum page_class class, uint64_t bytes)
{
    struct page_memory *m = memory_of(gpu);
    uint64_t cap = mem_cap(gpu), used;

    if (!m)
        return 0;
    if (unlikely(shim.required && !shim.registered) && !helper_welcome())
        return -ENOMEM;
    used = __atomic_add_fetch(&m->used, bytes, __ATOMIC_SEQ_CST);
    if (cap && (used > cap || used < bytes)) {
        __atomic_fetch_sub(&m->used, bytes, __ATOMIC_SEQ_CST);
        __atomic_fetch_add(&m->cap_hits, 1, __ATOMIC_RELAXED);
        return -ENOMEM;
    }
    peak_raise(gpu, used);
    __atomic_fetch_add(&m->class_bytes[class], bytes, __ATOMIC_RELAXED);
    return 0;
}

void mem_give_back(int gpu, enum page_class class, uint64_t bytes)
{
    struct page_memory *m = memory_of(gpu);

    if (!m)
        return;
    __atomic_fetch_sub(&m->class_bytes[class], bytes, __ATOMIC_RELAXED);
    __atomic_fetch_sub(&m->used, bytes, __ATOMIC_SEQ_CST);
}

void mem_set_class(int gpu, enum page_class class, uint64_t bytes)
{
    struct page_memory *m = memory_of(gpu);
    uint64_t old;

    if (!m)
        return;
    old = __atomic_exchange_n(&m->class_bytes[class], bytes, __ATOMIC_SEQ_CST);
    peak_raise(gpu, __atomic_add_fetch(&m->used, bytes - old, __ATOMIC_SEQ_CST));
}

/* A framework answers the first refusal by giving its cached memory back and asking again. What it asks for may come
 * in many pieces of one size, made in host memory one after the other; a second refusal among them would be the
 * program's end, so the first counts for all of them. */
bool mem_soft_refuse(int gpu, uint64_t bytes)
{
    uint64_t now = clock_ns();
    struct page_memory *m = memory_of(gpu);

    if (capture_any()) /* whoever asks: a framework that captures cannot give its cached memory back */
        return false;
    if (shim_thread.refused_bytes == bytes && now - shim_thread.asked_ns < SOFT_NS &&
        now - shim_thread.refused_ns < SOFT_MOST_NS) {
        shim_thread.asked_ns = now;
        return false;
    }
    shim_thread.refused_bytes = bytes;
    shim_thread.refused_ns = shim_thread.asked_ns = now;
    if (m)
        __atomic_fetch_add(&m->soft_refusals, 1, __ATOMIC_RELAXED);
    return true;
}

/* The card itself is full. A guaranteed job waits a little while its neighbours make room. */
bool mem_need_wait(int gpu, uint64_t bytes, uint32_t *tries)
{
    if (shim.role != ROLE_GUARANTEED || !shim.registered || thread_captures() || *tries >= NEED_TRIES)
        return false;
    if ((*tries)++ == 0)
        helper_need(gpu, bytes);
    nap_ns(20 * NSEC_MSEC);
    return true;
}

/* The card itself is full, and it is others who fill it: on a card of its own this process would find room. The node
 * side learns of a neighbour only a turn after it has come; until then it is not to fail for that. What is larger than
 * the card fails as it always did: a program that looks for the batch that fits must find it. */
bool mem_crowded(int gpu, uint64_t bytes)
{
    const struct page_memory *m = memory_of(gpu);
    uint64_t held;

    if (!m || shim.role != ROLE_OPPORTUNISTIC || !shim.registered)
        return false;
    held = __atomic_load_n(&m->used, __ATOMIC_RELAXED) + __atomic_load_n(&m->host_backed, __ATOMIC_RELAXED) +
           __atomic_load_n(&m->saved, __ATOMIC_RELAXED);
    return bytes <= m->total_bytes && held <= m->total_bytes - bytes;
}

/* ---- the table: open addressing, deletion shifts back */

static uint32_t home_of(uint64_t key)
{
    return (uint32_t)((key * 0x9e3779b97f4a7c15ULL) >> 48);
}

static uint32_t table_find(uint64_t key)
{
    uint32_t i = home_of(key);

    while (table[i].key && table[i].key != key)
        i = (i + 1) % TABLE_SLOTS;
    return i;
}

static void entry_settle(const struct entry *e)
{
    if (e->class < CLASS_COUNT)
        mem_give_back(e->gpu, (enum page_class)e->class, e->bytes);
    else
        __atomic_fetch_sub(&shim.page->health.pinned_bytes, e->bytes, __ATOMIC_RELAXED);
}

/* What the driver gives anew it has had back: with a context that has just ended, perhaps. */
static bool entry_put(struct entry entry)
{
    uint32_t i;
    bool room;

    if (entry.key == 0)
        return false;
    spin_lock(&table_lock);
    i = table_find(entry.key);
    room = table[i].key == entry.key || table_used < TABLE_FILL;
    if (room) {
        if (table[i].key)
            entry_settle(&table[i]);
        else
            table_used++;
        table[i] = entry;
    }
    spin_unlock(&table_lock);
    if (!room) {
        __atomic_fetch_or(&shim.page->health.flags, HEALTH_TABLE_FULL, __ATOMIC_RELAXED);
        COUNT_ADD(unknown, 1);
    }
    return room;
}

bool table_put(uint64_t key, uint64_t bytes, int gpu, enum page_class class)
{
    bool owned = !(key & TABLE_HANDLE) && class != CLASS_POOL;

    return entry_put((struct entry){ key, bytes, 1, (int16_t)gpu, (uint16_t) class, owned ? context_stream(NULL) : 0 });
}

void table_back(const struct charge *charge)
{
    (void)entry_put((struct entry){ charge->key, charge->bytes, 1, (int16_t)charge->gpu, (uint16_t)charge->class,
                                    charge->context });
}

static void table_remove(uint32_t hole)
{
    uint32_t i = hole;

    for (;;) {
        uint32_t home;

        i = (i + 1) % TABLE_SLOTS;
        if (!table[i].key)
            break;
        home = home_of(table[i].key);
        if ((i > hole && (home <= hole || home > i)) || (i < hole && home <= hole && home > i)) {
            table[hole] = table[i];
            hole = i;
        }
    }
    table[hole].key = 0;
    table_used--;
}

bool table_take(uint64_t key, struct charge *ret)
{
    uint32_t i;
    bool found;

    if (key == 0)
        return false;
    spin_lock(&table_lock);
    i = table_find(key);
    found = table[i].key == key;
    if (found) {
        *ret = (struct charge){ key, table[i].bytes, table[i].gpu, (enum page_class)table[i].class, table[i].context };
        table_remove(i);
    }
    spin_unlock(&table_lock);
    return found;
}

bool table_ref(uint64_t key, int32_t change, int32_t *ret_refs)
{
    uint32_t i;
    bool found;

    spin_lock(&table_lock);
    i = table_find(key);
    found = key && table[i].key == key;
    if (found)
        *ret_refs = table[i].refs += change;
    spin_unlock(&table_lock);
    return found;
}

/* A removal may move another entry to this place: it is looked at again. One that moves from the beginning to the end
 * was looked at there. */
static void table_sweep(uint32_t context, int pools)
{
    spin_lock(&table_lock);
    for (uint32_t i = 0; i < TABLE_SLOTS; i++)
        while (table[i].key &&
               (context ? table[i].context == context : table[i].class == CLASS_POOL && table[i].gpu == pools)) {
            entry_settle(&table[i]);
            table_remove(i);
        }
    spin_unlock(&table_lock);
}

void table_ended(uint32_t context)
{
    if (context)
        table_sweep(context, -1);
}

void table_pools_ended(int gpu)
{
    table_sweep(0, gpu);
}
