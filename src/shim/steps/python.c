/* SPDX-License-Identifier: Apache-2.0 */
/* python.c - tier 1: a hook on the optimizer of an unmodified PyTorch program.
 *
 * Nothing is installed in the image and torch is never imported by us. When a context comes to be in a process that
 * has a Python interpreter, a pending call is queued; it runs in the main thread under the interpreter's lock and, if
 * torch.optim is there, registers a C function of ours as a post-step hook. Every exception is swallowed.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "shim/shim.h"

#define PY_FILE_INPUT 257
#define TRIES 5u

struct py_method { /* PyMethodDef */
    const char *name;
    void *(*fn)(void *self, void *args);
    int flags;
    const char *doc;
};

static int (*add_pending)(int (*fn)(void *), void *arg);
static void *(*dict_new)(void);
static int (*dict_set)(void *dict, const char *key, void *value);
static void *(*run_string)(const char *code, int start, void *globals, void *locals, void *flags);
static void *(*cfunction_new)(struct py_method *def, void *self, void *module);
static void *(*get_builtins)(void);
static void *(*tuple_item)(void *tuple, intptr_t at);
static void *(*long_value)(void *object);
static void (*err_clear)(void);
static void (*inc_ref)(void *);
static void (*dec_ref)(void *);
static void *none;
static _Atomic uint32_t tries, queued, hooked, trim_asked, trim_now, trim_done, trim_at_step;
static _Atomic uint32_t save_asked, saving_now;
static _Atomic int save_result;  /* as python_saved() */
static _Atomic uint32_t by_site; /* the hook is sitecustomize.py's */
static _Atomic uint32_t stats_asked;
static _Atomic int stats_result; /* as python_stats_read() */

EXPORT int muster_gpu_site(void);
EXPORT int muster_gpu_site_step(uint64_t which);
EXPORT void muster_gpu_site_done(int what, int result);
EXPORT void muster_gpu_site_stats(const uint64_t *values);

#define STATS 9u /* the GPU, and four sizes with their peaks */

static void code_run(const char *code, bool with_hook);

/* The program's own checkpoint, between two steps, in its own thread: never inside a signal handler. */
static const char save_code[] = "import sys\n"
                                "f = getattr(sys.modules.get('__main__'), 'muster_on_checkpoint', None)\n"
                                "if f is not None:\n"
                                "    f()\n"
                                "    saved()\n"
                                "else:\n"
                                "    cannot()\n";

/* PyTorch's own book, read between two steps in the program's own thread. */
static const char stats_code[] = "import sys\n"
                                 "t = sys.modules.get('torch')\n"
                                 "s = t.cuda.memory_stats() if t is not None and t.cuda.is_initialized() else None\n"
                                 "if s:\n"
                                 "    k = ('allocated', 'reserved', 'active', 'inactive_split')\n"
                                 "    stats(t.cuda.current_device(), *[int(s.get(f'{n}_bytes.all.{w}', 0)) for n in k "
                                 "for w in ('current', 'peak')])\n"
                                 "else:\n"
                                 "    nostats()\n";

static void stats_write(const uint64_t *values)
{
    struct page_torch *t = &shim.page->torch;

    t->at_ns = clock_ns();
    t->gpu = values[0];
    t->allocated = values[1];
    t->allocated_peak = values[2];
    t->reserved = values[3];
    t->reserved_peak = values[4];
    t->active = values[5];
    t->active_peak = values[6];
    t->inactive_split = values[7];
    t->inactive_split_peak = values[8];
    __atomic_fetch_add(&t->seq, 1, __ATOMIC_RELEASE);
    atomic_store(&stats_result, 0);
}

static void *stats_call(void *self, void *args)
{
    uint64_t values[STATS];

    (void)self;
    for (intptr_t i = 0; i < (intptr_t)STATS; i++) {
        void *value = tuple_item(args, i);

        values[i] = value ? (uint64_t)(uintptr_t)long_value(value) : 0;
    }
    err_clear();
    stats_write(values);
    inc_ref(none);
    return none;
}

static void *nostats_call(void *self, void *args)
{
    (void)self;
    (void)args;
    atomic_store(&stats_result, -ENOSYS);
    inc_ref(none);
    return none;
}

/* What a command asked for, at the end of a step. Until it has run it is neither there nor failed. */
static void stats_run(void)
{
    code_run(stats_code, true);
    if (atomic_load(&stats_result) == -EAGAIN)
        atomic_store(&stats_result, -EIO);
}

static const char trim_code[] = "import sys\n"
                                "t = sys.modules.get('torch')\n"
                                "if t is not None and t.cuda.is_initialized():\n"
                                "    t.cuda.empty_cache()\n";

/* In a thread of the program's, with the interpreter's lock. */
static void trim_run(void)
{
    atomic_store(&trim_now, 1);
    code_run(trim_code, false);
    atomic_store(&trim_now, 0);
    atomic_store(&trim_done, 1);
}

static void *hook_call(void *self, void *args)
{
    void *which = tuple_item(args, 0);

    (void)self;
    if (capture_any()) { /* a step that is recorded is none, and nothing may be copied in the middle of it */
        inc_ref(none);
        return none;
    }
    step_optimizer(TIER_OPTIMIZER, which ? (uint64_t)(uintptr_t)long_value(which) : 0);
    err_clear();
    if (unlikely(atomic_load(&trim_at_step))) {
        if (spill_wanted())
            trim_run();
        atomic_store(&trim_at_step, 0);
    }
    if (unlikely(atomic_exchange(&stats_asked, 0)))
        stats_run();
    if (unlikely(atomic_exchange(&save_asked, 0))) {
        atomic_store(&saving_now, 1);
        atomic_store(&save_result, -EIO);
        code_run(save_code, true);
        atomic_store(&saving_now, 0);
    }
    inc_ref(none);
    return none;
}

static void *done_call(void *self, void *args)
{
    (void)self;
    (void)args;
    atomic_store(&hooked, 1);
    inc_ref(none);
    return none;
}

static void *saved_call(void *self, void *args)
{
    (void)self;
    (void)args;
    atomic_store(&save_result, 0);
    inc_ref(none);
    return none;
}

static void *cannot_call(void *self, void *args)
{
    (void)self;
    (void)args;
    atomic_store(&save_result, -ENOSYS);
    inc_ref(none);
    return none;
}

static struct py_method hook_def = { "muster_step_hook", hook_call, 1, NULL }; /* 1: METH_VARARGS */
static struct py_method done_def = { "muster_done", done_call, 1, NULL };
static struct py_method saved_def = { "muster_saved", saved_call, 1, NULL };
static struct py_method stats_def = { "muster_stats", stats_call, 1, NULL };
static struct py_method nostats_def = { "muster_nostats", nostats_call, 1, NULL };
static struct py_method cannot_def = { "muster_cannot", cannot_call, 1, NULL };

static const char hook_code[] = "import sys\n"
                                "m = sys.modules.get('torch.optim.optimizer')\n"
                                "t = sys.modules.get('torch')\n"
                                "if m is not None and hasattr(t, 'cuda') and "
                                "hasattr(m, 'register_optimizer_step_post_hook'):\n"
                                "    m.register_optimizer_step_post_hook(lambda o, a, k, h=hook: h(id(o)))\n"
                                "    done()\n";
static bool python_find(void)
{
    static _Atomic uint32_t state; /* 0 not found, 1 a thread looks, 2 there */
    const char *how = getenv("MUSTER_GPU_PYTHON");
    uint32_t idle = 0;

    if (how && strcmp(how, "site") == 0)
        return false;
    if (!atomic_compare_exchange_strong(&state, &idle, 1))
        return atomic_load(&state) == 2;
    *(void **)&add_pending = resolve_any("Py_AddPendingCall");
    *(void **)&dict_new = resolve_any("PyDict_New");
    *(void **)&dict_set = resolve_any("PyDict_SetItemString");
    *(void **)&run_string = resolve_any("PyRun_StringFlags");
    *(void **)&cfunction_new = resolve_any("PyCFunction_NewEx");
    *(void **)&get_builtins = resolve_any("PyEval_GetBuiltins");
    *(void **)&tuple_item = resolve_any("PyTuple_GetItem");
    *(void **)&long_value = resolve_any("PyLong_AsVoidPtr");
    *(void **)&err_clear = resolve_any("PyErr_Clear");
    *(void **)&inc_ref = resolve_any("Py_IncRef");
    *(void **)&dec_ref = resolve_any("Py_DecRef");
    if (!add_pending || !dict_new || !dict_set || !run_string || !cfunction_new || !get_builtins || !tuple_item ||
        !long_value || !err_clear || !inc_ref || !dec_ref || !(none = resolve_any("_Py_NoneStruct"))) {
        atomic_store(&state, 0); /* perhaps it is loaded later */
        return false;
    }
    atomic_store(&state, 2);
    return true;
}

/* Runs with the interpreter's lock. */
static void code_run(const char *code, bool with_hook)
{
    static const struct {
        const char *name;
        struct py_method *def;
    } names[] = { { "hook", &hook_def },     { "done", &done_def },   { "saved", &saved_def },
                  { "cannot", &cannot_def }, { "stats", &stats_def }, { "nostats", &nostats_def } };
    void *dict = dict_new(), *f, *result;

    if (!dict) {
        err_clear();
        return;
    }
    (void)dict_set(dict, "__builtins__", get_builtins());
    for (size_t i = 0; with_hook && i < sizeof(names) / sizeof(names[0]); i++)
        if ((f = cfunction_new(names[i].def, NULL, NULL)) != NULL) {
            (void)dict_set(dict, names[i].name, f);
            dec_ref(f);
        }
    result = run_string(code, PY_FILE_INPUT, dict, dict, NULL);
    if (result)
        dec_ref(result);
    else
        err_clear();
    dec_ref(dict);
}

static int pending_hook(void *arg)
{
    (void)arg;
    if (!atomic_load(&hooked))
        code_run(hook_code, true);
    atomic_store(&queued, 0);
    return 0;
}

void python_try(void)
{
    uint32_t idle = 0;

    if (atomic_load(&hooked) || atomic_load(&tries) >= TRIES || !python_find())
        return;
    if (!atomic_compare_exchange_strong(&queued, &idle, 1))
        return;
    atomic_fetch_add(&tries, 1);
    if (add_pending(pending_hook, NULL) != 0)
        atomic_store(&queued, 0);
}

static int pending_trim(void *arg)
{
    (void)arg;
    if (!capture_any()) /* memory that PyTorch gives back in the middle of a capture is the end of it */
        trim_run();
    atomic_store(&trim_asked, 0);
    return 0;
}

bool python_trim(bool again)
{
    uint32_t idle = 0;

    if (!(atomic_load(&hooked) || atomic_load(&by_site)) || !atomic_compare_exchange_strong(&trim_asked, &idle, 1))
        return false;
    atomic_store(&trim_done, 0);
    atomic_store(&trim_at_step, again && atomic_load(&hooked));
    /* sitecustomize.py sees it at the end of a step. */
    if (atomic_load(&hooked) && add_pending(pending_trim, NULL) != 0) {
        atomic_store(&trim_at_step, 0);
        atomic_store(&trim_asked, 0);
        return false;
    }
    return true;
}

bool python_trimming(void)
{
    return atomic_load(&trim_now) != 0;
}

bool python_trimmed(void)
{
    return atomic_load(&trim_done) && !atomic_load(&trim_at_step);
}

/* Asked for at the next end of a step; a step that takes no end is the caller's deadline. */
int python_save(void)
{
    if (!atomic_load(&hooked) && !atomic_load(&by_site))
        return -ENOSYS;
    atomic_store(&save_result, -EAGAIN);
    atomic_store(&save_asked, 1);
    return 0;
}

int python_saved(void)
{
    int r = atomic_load(&save_result);

    /* While it runs it is neither done nor failed; the flag is down and the result not yet final. */
    return r == -EIO && atomic_load(&saving_now) ? -EAGAIN : r;
}

int python_stats(void)
{
    if (!atomic_load(&hooked) && !atomic_load(&by_site))
        return -ENOSYS;
    atomic_store(&stats_result, -EAGAIN);
    atomic_store(&stats_asked, 1);
    return 0;
}

int python_stats_read(void)
{
    return atomic_load(&stats_result);
}

/* ---- sitecustomize.py: the same from outside, for an interpreter that keeps its functions to itself */

enum { SITE_TRIM = 1, SITE_SAVE = 2, SITE_STATS = 4 };

/* Shall it put its own hook there? Not where ours is, or is still to come. */
int muster_gpu_site(void)
{
    return !atomic_load(&hooked) && (atomic_load(&tries) >= TRIES || !python_find());
}

/* An optimizer has made a step; returns what else is to be done at its end. */
int muster_gpu_site_step(uint64_t which)
{
    int wanted = 0;

    if (atomic_load(&shim.on) != 1 || atomic_load(&hooked))
        return 0;
    atomic_store(&by_site, 1);
    if (capture_any())
        return 0;
    step_optimizer(TIER_OPTIMIZER, which);
    if (atomic_load(&trim_asked) && !atomic_load(&trim_done)) {
        atomic_store(&trim_now, 1);
        wanted |= SITE_TRIM;
    }
    if (unlikely(atomic_exchange(&stats_asked, 0)))
        wanted |= SITE_STATS;
    if (unlikely(atomic_exchange(&save_asked, 0))) {
        atomic_store(&saving_now, 1);
        atomic_store(&save_result, -EIO);
        wanted |= SITE_SAVE;
    }
    return wanted;
}

void muster_gpu_site_done(int what, int result)
{
    if (what == SITE_TRIM) {
        atomic_store(&trim_now, 0);
        atomic_store(&trim_done, 1);
        atomic_store(&trim_asked, 0);
    } else if (what == SITE_SAVE) {
        atomic_store(&save_result, result == 0 || result == -ENOSYS ? result : -EIO);
        atomic_store(&saving_now, 0);
    } else if (what == SITE_STATS) {
        atomic_store(&stats_result, result == -ENOSYS ? result : -EIO);
    }
}

void muster_gpu_site_stats(const uint64_t *values)
{
    stats_write(values);
}
