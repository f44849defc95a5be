/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/* shim_play.h - a test plays the node side: it finds the process page of its own process and writes commands into it.
 */
#include <dlfcn.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

#include "shim/page.h"

#ifndef PLAY_FAIL
#define PLAY_FAIL fail_msg /* of cmocka */
#endif

static uint64_t (*stat_of)(const char *);
static struct page *page;

static uint64_t now_ns(void)
{
    struct timespec t;

    clock_gettime(CLOCK_MONOTONIC, &t);
    return (uint64_t)t.tv_sec * 1000000000ULL + (uint64_t)t.tv_nsec;
}

/* The page is a sealed memfd of this process: find it among the open files. */
static struct page *page_find(void)
{
    for (int fd = 3; fd < 64; fd++) {
        char path[64], name[128] = "";

        (void)snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
        if (readlink(path, name, sizeof(name) - 1) > 0 && strstr(name, "muster-gpu")) {
            void *p = mmap(NULL, PAGE_SIZE_BYTES, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);

            return p == MAP_FAILED ? NULL : p;
        }
    }
    return NULL;
}

static uint64_t command_post_gpu(uint32_t gpu, enum page_op op, uint64_t arg)
{
    uint64_t seq = page->control.command_seq + 1;

    page->command[seq % PAGE_RING] = (struct page_command){
        .seq = seq, .op = op, .gpu = gpu, .arg = { arg }, .deadline_ns = now_ns() + 5000000000ULL
    };
    __atomic_store_n(&page->control.command_seq, seq, __ATOMIC_RELEASE);
    return seq;
}

static inline uint64_t command_post(enum page_op op, uint64_t arg)
{
    return command_post_gpu(0, op, arg);
}

static inline int64_t command_gpu(uint32_t gpu, enum page_op op, uint64_t arg)
{
    uint64_t seq = command_post_gpu(gpu, op, arg);
    struct page_reply *reply = &page->reply[seq % PAGE_RING];

    for (int i = 0; i < 10000; i++) {
        if (__atomic_load_n(&reply->seq, __ATOMIC_ACQUIRE) == seq)
            return reply->result < 0 ? reply->result : (int64_t)reply->bytes;
        usleep(1000);
    }
    PLAY_FAIL("command %d was not answered", (int)op);
    return -1;
}

static inline int64_t command(enum page_op op, uint64_t arg)
{
    return command_gpu(0, op, arg);
}

/* A file of a directory that stands for the job's cgroup. */
static inline void cgroup_write(const char *dir, const char *name, const char *text)
{
    char path[128];
    FILE *f;

    (void)snprintf(path, sizeof(path), "%s/%s", dir, name);
    f = fopen(path, "we");
    if (!f || fputs(text, f) < 0 || fclose(f) != 0)
        PLAY_FAIL("%s could not be written", path);
}

static inline int play_begin(void)
{
    *(void **)&stat_of = dlsym(RTLD_DEFAULT, "muster_gpu_stat");
    page = page_find();
    return !stat_of || !page;
}
