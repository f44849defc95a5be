/* SPDX-License-Identifier: Apache-2.0 */
/* The memory of one GPU between its jobs, as the node side divides it, played with processes that are only pages: the
 * turns, the moves they ask for and the trial that finds who gains by a unit. */
#include <errno.h>
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/alloc.h"
#include "gpurt/node.h"
#include "gpurt_process.h"
#include "shim/channel.h"

#define SEC 1000000000ULL
#define MIB ((uint64_t)1 << 20)
#define GPU_MIB 16384u /* margin 512, units of 512 */

static struct node *node;
static uint64_t now;
static bool no_host; /* nothing can be moved out */

static struct client *process_new(int slot, uint32_t role, uint32_t mode)
{
    struct client *c = process_make(node, slot, role);

    c->mode = mode;
    return c;
}

static void holds(struct client *c, uint64_t used_mib, uint64_t host_mib)
{
    struct page_memory *m = &c->page->memory[0];

    m->used = used_mib * MIB;
    m->host_backed = host_mib * MIB;
    m->movable = c->mode == 2 ? (used_mib + host_mib) * MIB : 0;
}

static uint64_t mib_of(uint64_t bytes)
{
    return bytes / MIB;
}

static uint64_t cap_of(const struct client *c)
{
    return mib_of(c->page->limit[0].cap_bytes);
}

/* What the library in the process would do with the newest order. */
static void obey(struct client *c)
{
    uint64_t seq = c->page->control.command_seq, room;
    struct page_command *order = &c->page->command[seq % PAGE_RING];
    struct page_memory *m = &c->page->memory[0];
    struct page_reply *reply = &c->page->reply[seq % PAGE_RING];
    uint64_t bytes = 0;

    if (c->step == STEP_NONE || reply->seq == seq)
        return;
    if (order->op == OP_SPILL_TO && m->used > order->arg[0] && !no_host)
        bytes = m->used - order->arg[0];
    if (order->op == OP_SPILL_TO)
        c->page->health.flags = no_host && m->used > order->arg[0] ? HEALTH_NO_HOST : 0;
    if (order->op == OP_HOME) {
        room = c->page->limit[0].cap_bytes ? c->page->limit[0].cap_bytes - m->used : UINT64_MAX;
        bytes = m->host_backed < order->arg[0] ? m->host_backed : order->arg[0];
        bytes = bytes < room ? bytes : room;
    }
    if (order->op == OP_HOME || order->op == OP_SPILL_TO) {
        m->used += order->op == OP_HOME ? bytes : -bytes;
        m->host_backed += order->op == OP_HOME ? -bytes : bytes;
    }
    *reply = (struct page_reply){ .seq = seq, .bytes = bytes };
    ladder_turn(node, c);
}

static void turns(int seconds)
{
    for (int i = 0; i < seconds; i++) {
        now += SEC;
        memory_turn(node, 0, now);
        for (int k = 0; k < 8; k++)
            if (node->client[k].fd >= 0)
                obey(&node->client[k]);
    }
}

static int setup(void **state)
{
    (void)state;
    node = node_make(GPU_MIB * MIB);
    now = 1000 * SEC;
    no_host = false;
    return node ? 0 : -1;
}

static int teardown(void **state)
{
    (void)state;
    node_drop(node);
    return 0;
}

static enum page_op last_op(const struct client *c)
{
    return c->page->command[c->page->control.command_seq % PAGE_RING].op;
}

/* A limit that is set while memory goes home by itself does not wait for that, whether it is lower or higher. */
static void test_limit_meanwhile(void **state)
{
    struct client *ot = process_new(0, ROLE_OPPORTUNISTIC, 2);
    struct error err;

    (void)state;
    holds(ot, 1024, 4096);
    ot->page->limit[0].view_total_bytes = 2048 * MIB;
    for (uint64_t limit = 8192; limit >= 512; limit /= 16) {
        assert_true(ladder_promote(ot, 0, 512 * MIB));
        assert_int_equal(last_op(ot), OP_HOME);
        assert_int_equal(ladder_memory(node, ot, -1, limit * MIB, &err), 0);
        assert_int_equal(last_op(ot), limit == 512 ? OP_SPILL_TO : OP_PROMOTE);
        obey(ot);
        assert_int_equal(ot->step, STEP_NONE);
    }
}

/* One that is set while we make room by ourselves is served when that is over: a higher one by bringing all of it home.
 */
static void test_limit_after(void **state)
{
    struct client *ot = process_new(0, ROLE_OPPORTUNISTIC, 2);
    struct error err;

    (void)state;
    holds(ot, 1024, 4096);
    ot->page->limit[0].view_total_bytes = 2048 * MIB;
    assert_true(ladder_spill(ot, 0, 512 * MIB));
    assert_int_equal(ladder_memory(node, ot, -1, 8192 * MIB, &err), 0);
    assert_int_equal(last_op(ot), OP_SPILL_TO);
    obey(ot);
    assert_int_equal(last_op(ot), OP_PROMOTE);
    obey(ot);
    assert_int_equal(ot->step, STEP_NONE);
}

/* ---- caps */

static void test_alone(void **state)
{
    struct client *ot = process_new(0, ROLE_OPPORTUNISTIC, 2);

    (void)state;
    holds(ot, 8192, 0);
    turns(3);
    assert_int_equal(ot->page->limit[0].cap_bytes, 0);
    assert_int_equal(ot->page->control.command_seq, 0);
}

/* The guaranteed job's peak and 512; the rest; a native neighbour above its part is not touched but gets no more. */
static void test_pair(void **state)
{
    struct client *rg = process_new(0, ROLE_GUARANTEED, 1), *ot = process_new(1, ROLE_OPPORTUNISTIC, 2);
    struct client *native = process_new(2, ROLE_OPPORTUNISTIC, 1);

    (void)state;
    holds(rg, 4096, 0);
    holds(ot, 2048, 0);
    holds(native, 1024, 0);
    turns(2);
    assert_int_equal(rg->page->limit[0].cap_bytes, 0); /* native: not held to anything */
    assert_int_equal(cap_of(ot) + cap_of(native), GPU_MIB - 4096 - 512);
    holds(rg, 14336, 0);
    turns(3);
    assert_int_equal(cap_of(native), 1024);
    assert_int_equal(cap_of(ot), GPU_MIB - 14336 - 512 - 1024);
    assert_true(mib_of(ot->page->memory[0].used) <= cap_of(ot));
    assert_int_equal(mib_of(ot->page->memory[0].used + ot->page->memory[0].host_backed), 2048);
}

/* A surge: in host memory first; the neighbour shrinks; only then the cap is raised; then home. */
static void test_surge(void **state)
{
    struct client *rg = process_new(0, ROLE_GUARANTEED, 2), *ot = process_new(1, ROLE_OPPORTUNISTIC, 2);

    (void)state;
    holds(rg, 4096, 0);
    holds(ot, 11264, 0);
    turns(2);
    assert_int_equal(cap_of(rg), 4608);
    assert_int_equal(cap_of(ot), 11776);
    holds(rg, 4608, 3584);
    now += SEC;
    memory_turn(node, 0, now); /* nobody has obeyed yet: nothing is promised twice */
    assert_int_equal(cap_of(ot), GPU_MIB - 8192 - 512);
    assert_true(cap_of(rg) + mib_of(ot->page->memory[0].used) <= GPU_MIB);
    turns(8);
    assert_int_equal(cap_of(rg), 8704);
    assert_int_equal(mib_of(rg->page->memory[0].used), 8192);
    assert_int_equal(rg->page->memory[0].host_backed, 0);
    assert_int_equal(mib_of(ot->page->memory[0].used), 7680);
    assert_int_equal(mib_of(ot->page->memory[0].host_backed), 11264 - 7680);
    rg->fd = -1;
    turns(6);
    assert_int_equal(ot->page->limit[0].cap_bytes, 0);
    assert_int_equal(mib_of(ot->page->memory[0].used), 11264);
}

/* What others hold is left to them, and a limit somebody set is never exceeded. */
static void test_reserve(void **state)
{
    struct client *rg = process_new(0, ROLE_GUARANTEED, 1), *ot = process_new(1, ROLE_OPPORTUNISTIC, 2);

    (void)state;
    holds(rg, 4096, 0);
    holds(ot, 1024, 0);
    memory_seen(node, 0, 4096 + 1024 + 3000);
    turns(2);
    assert_int_equal(cap_of(ot), GPU_MIB - 3072 - 4096 - 512);
    memory_seen(node, 0, 4096 + 1024 + 2900); /* a little less: nothing moves */
    turns(2);
    assert_int_equal(cap_of(ot), GPU_MIB - 3072 - 4096 - 512);
    memory_seen(node, 0, 4096 + 1024);
    turns(2);
    assert_int_equal(cap_of(ot), GPU_MIB - 4096 - 512);
    ot->page->limit[0].view_total_bytes = 2048 * MIB;
    turns(1);
    assert_int_equal(cap_of(ot), 2048);
}

/* More than the machine's memory cannot leave the GPU: said before anything is stopped. */
static void test_host(void **state)
{
    struct client *ot = process_new(0, ROLE_OPPORTUNISTIC, 2);
    struct error err = { 0 };

    (void)state;
    holds(ot, 16, 0);
    assert_int_equal(memory_host(ot, &err), 0);
    holds(ot, (uint64_t)1 << 40, 0);
    assert_int_equal(ladder_order(node, ot, CLIENT_EVICTED, &err), -ENOMEM);
    assert_non_null(strstr(err.text, "of host memory are needed"));
    assert_int_equal(ot->state, CLIENT_RUNNING);
    assert_int_equal(ot->page->control.command_seq, 0);
    ot->page->health.area_bytes = ((uint64_t)1 << 60) + ((uint64_t)1 << 60) / 10; /* made ahead of time */
    assert_int_equal(memory_host(ot, &err), 0);
    holds(ot, 16, 0);
    ot->page->health.area_bytes = 0;
    ot->page->memory[1].movable = (uint64_t)1 << 60; /* of its second GPU */
    assert_int_equal(memory_host(ot, &err), -ENOMEM);
    ot->page->memory[1].movable = 16 * MIB;
    assert_int_equal(memory_host(ot, &err), 0);
    ot->page->limit[0].host_cap_bytes = 31 * MIB; /* which is of both */
    assert_int_equal(memory_host(ot, &err), -ENOMEM);
    assert_non_null(strstr(err.text, "32 MiB of host memory are needed and its --host-memory leaves 31"));
}

/* No host memory to move it to: it is paused instead, tried again, and runs on when it holds no more than its limit. */
static void test_starved(void **state)
{
    struct client *rg = process_new(0, ROLE_GUARANTEED, 1), *ot = process_new(1, ROLE_OPPORTUNISTIC, 2);

    (void)state;
    holds(rg, 4096, 0);
    holds(ot, 8192, 0);
    turns(2);
    assert_int_equal(ot->state, CLIENT_RUNNING);
    holds(rg, 12288, 0); /* 3584 are left for it */
    no_host = true;
    turns(4);
    assert_int_equal(ot->state, CLIENT_PAUSED);
    assert_true(ot->starved);
    assert_int_equal(ot->page->control.gate, GATE_CLOSED);
    assert_int_equal(mib_of(ot->page->memory[0].used), 8192); /* nothing is lost */
    turns(3);
    assert_int_equal(ot->state, CLIENT_PAUSED);
    starve_turn(node, ot, ot->starved_ns + 4 * SEC);
    assert_int_equal(ot->step, STEP_NONE);
    starve_turn(node, ot, ot->starved_ns + 6 * SEC); /* tried again, in vain */
    assert_int_equal(ot->step, STEP_SPILL);
    turns(1);
    assert_int_equal(ot->state, CLIENT_PAUSED);
    no_host = false;
    starve_turn(node, ot, ot->starved_ns + 6 * SEC);
    turns(1);
    ladder_turn(node, ot);
    assert_int_equal(ot->state, CLIENT_RUNNING);
    assert_false(ot->starved);
    assert_int_equal(mib_of(ot->page->memory[0].used), 3584);
    assert_int_equal(mib_of(ot->page->memory[0].used + ot->page->memory[0].host_backed), 8192);
}

/* A higher limit, or an order, ends it as well; a guaranteed job is never paused so. */
static void test_starved_ends(void **state)
{
    struct client *ot = process_new(0, ROLE_OPPORTUNISTIC, 2), *rg = process_new(1, ROLE_GUARANTEED, 2);
    struct error err = { 0 };

    (void)state;
    rg->arena[0] = -1; /* on another GPU: nobody divides anything */
    no_host = true;
    for (int how = 0; how < 2; how++) {
        holds(ot, 8192, 0);
        assert_int_equal(ladder_memory(node, ot, -1, 4096 * MIB, &err), 0);
        obey(ot); /* the spill; */
        obey(ot); /* and the pause */
        assert_int_equal(ot->state, CLIENT_PAUSED);
        assert_true(ot->starved);
        assert_int_equal(
            how ? ladder_order(node, ot, CLIENT_RUNNING, &err) : ladder_memory(node, ot, -1, 9000 * MIB, &err), 0);
        obey(ot);
        ladder_turn(node, ot);
        assert_int_equal(ot->state, CLIENT_RUNNING);
        assert_false(ot->starved);
        ladder_turn(node, ot);
        assert_int_equal(ot->state, CLIENT_RUNNING); /* and stays so, whatever it holds */
    }
    assert_true(ladder_spill(ot, 0, 4096 * MIB)); /* nor does a move of ours, in vain, stop one that was told to run */
    obey(ot);
    ladder_turn(node, ot);
    assert_int_equal(ot->goal, CLIENT_RUNNING);
    assert_false(ot->starved);
    holds(rg, 8192, 0);
    assert_int_equal(ladder_memory(node, rg, -1, 4096 * MIB, &err), 0);
    obey(rg);
    assert_int_equal(rg->state, CLIENT_RUNNING);
    assert_int_equal(rg->step, STEP_NONE);
}

/* ---- the context */

/* What the card shows less what is counted, once two looks agree and nothing moved while they were taken. */
static void test_context(void **state)
{
    struct client *c = process_new(0, ROLE_OPPORTUNISTIC, 2);
    const struct page_limit *told = &c->page->limit[0];
    struct page_memory *m = &c->page->memory[0];
    uint8_t uuid[16] = { 0 }, other[16] = { 1 };

    (void)state;
    holds(c, 1000 + 512, 0);
    m->class_bytes[CLASS_CONTEXT] = 512 * MIB;
    contexts_before(node);
    context_seen(c, uuid, 1300);
    assert_int_equal(told->context_bytes, 0); /* one look is none */
    context_seen(c, other, 1300);
    assert_int_equal(told->context_bytes, 0);
    context_seen(c, uuid, 1304);
    assert_int_equal(told->context_bytes, 304 * MIB);
    m->class_bytes[CLASS_CONTEXT] = 304 * MIB; /* its library takes it over: nothing changes by that */
    m->used = 1304 * MIB;
    contexts_before(node);
    context_seen(c, uuid, 1310);
    context_seen(c, uuid, 1312);
    assert_int_equal(told->context_bytes, 304 * MIB);
    context_seen(c, uuid, 1400); /* it loaded kernels */
    assert_int_equal(told->context_bytes, 304 * MIB);
    context_seen(c, uuid, 1400);
    assert_int_equal(told->context_bytes, 400 * MIB);
    m->used += 64 * MIB; /* allocated while the card was asked: before or after? */
    context_seen(c, uuid, 2000);
    context_seen(c, uuid, 2000);
    assert_int_equal(told->context_bytes, 400 * MIB);
    contexts_before(node);
    context_seen(c, uuid, 0); /* a driver that does not tell */
    context_seen(c, uuid, 0);
    context_seen(c, uuid, 500); /* and one that shows less than there is */
    context_seen(c, uuid, 500);
    c->state = CLIENT_EVICTED;
    context_seen(c, uuid, 1900);
    context_seen(c, uuid, 1900);
    c->state = CLIENT_RUNNING;
    c->step = STEP_SPILL;
    context_seen(c, uuid, 1900);
    context_seen(c, uuid, 1900);
    assert_int_equal(told->context_bytes, 400 * MIB);
}

/* ---- registration */

/* Three hundred processes at once: each has its page known and its welcome. */
static void test_registrations(void **state)
{
    enum { PROCESSES = 300 };
    static int fd[PROCESSES];
    char dir[] = "/tmp/muster-gpu-XXXXXX", path[64];
    struct error err = { 0 };
    int status, welcome = 0;
    pid_t pid;

    (void)state;
    assert_non_null(mkdtemp(dir));
    (void)snprintf(path, sizeof(path), "%s/s", dir);
    pid = fork();
    if (pid == 0)
        _exit(node_run(path, dir, "/nonexistent", 1, &err) < 0);
    for (int i = 0; i < 200 && access(path, F_OK) != 0; i++)
        (void)usleep(10000);
    for (int i = 0; i < PROCESSES; i++) {
        struct message_hello hello = {
            { MSG_HELLO, sizeof(hello) }, PAGE_ABI, ROLE_OPPORTUNISTIC, 1, 1, 0, 0, 0, 0, 0, 0, "", "", "", 0, 0
        };
        int page = memfd_create("page", MFD_CLOEXEC | MFD_ALLOW_SEALING);
        struct page head = { .magic = PAGE_MAGIC, .abi = PAGE_ABI };

        assert_true(page >= 0 && ftruncate(page, PAGE_SIZE_BYTES) == 0);
        assert_true(write(page, &head, sizeof(head)) == (ssize_t)sizeof(head));
        assert_int_equal(fcntl(page, F_ADD_SEALS, F_SEAL_SHRINK), 0);
        fd[i] = channel_connect(path, 0); /* its file is there before it listens */
        for (int k = 0; k < 500 && fd[i] < 0; k++) {
            (void)usleep(10000);
            fd[i] = channel_connect(path, 0);
        }
        assert_true(fd[i] >= 0);
        assert_true(channel_send(fd[i], &hello, sizeof(hello), page));
        close(page);
    }
    for (int i = 0; i < PROCESSES; i++) {
        struct message_welcome answer = { 0 };

        welcome +=
            recv(fd[i], &answer, sizeof(answer), 0) == (ssize_t)sizeof(answer) && answer.head.type == MSG_WELCOME;
        close(fd[i]);
    }
    assert_int_equal(welcome, PROCESSES);
    assert_int_equal(waitpid(pid, &status, 0), pid); /* nobody is left: it ends by itself */
    assert_int_equal(status, 0);
    (void)rmdir(dir);
}

/* ---- trial and error */

/* Two jobs want 12 GiB each of 16. The first runs at full speed with anything, the second needs 10 GiB to be quick. */
static uint64_t speed(int job, uint64_t used_mib)
{
    if (job == 0)
        return 1000;
    return used_mib >= 10240 ? 1000 : 200 + used_mib / 64;
}

static void test_trial(void **state)
{
    struct client *job[2] = { process_new(0, ROLE_OPPORTUNISTIC, 2), process_new(1, ROLE_OPPORTUNISTIC, 2) };

    (void)state;
    holds(job[0], 8192, 4096);
    holds(job[1], 8192, 4096);
    for (int i = 0; i < 1500; i++) {
        turns(1);
        for (int k = 0; k < 2; k++)
            job[k]->page->counters[0].launches += speed(k, mib_of(job[k]->page->memory[0].used));
    }
    assert_true(node->gpu[0].memory.trying);
    assert_true(node->gpu[0].memory.trial.settled);
    assert_true(cap_of(job[1]) >= 10240);
    assert_true(mib_of(job[1]->page->memory[0].used) >= 10240);
    assert_true(cap_of(job[0]) + cap_of(job[1]) <= GPU_MIB);
    for (int k = 0; k < 2; k++)
        assert_int_equal(mib_of(job[k]->page->memory[0].used + job[k]->page->memory[0].host_backed), 12288);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_limit_meanwhile, setup, teardown),
        cmocka_unit_test_setup_teardown(test_limit_after, setup, teardown),
        cmocka_unit_test_setup_teardown(test_alone, setup, teardown),
        cmocka_unit_test_setup_teardown(test_pair, setup, teardown),
        cmocka_unit_test_setup_teardown(test_surge, setup, teardown),
        cmocka_unit_test_setup_teardown(test_reserve, setup, teardown),
        cmocka_unit_test_setup_teardown(test_host, setup, teardown),
        cmocka_unit_test_setup_teardown(test_starved, setup, teardown),
        cmocka_unit_test_setup_teardown(test_starved_ends, setup, teardown),
        cmocka_unit_test_setup_teardown(test_context, setup, teardown),
        cmocka_unit_test(test_registrations),
        cmocka_unit_test_setup_teardown(test_trial, setup, teardown),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
