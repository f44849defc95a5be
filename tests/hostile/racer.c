/* SPDX-License-Identifier: Apache-2.0 */
/* racer.c - swaps what a name in a folder leads to, in a tight loop, as a hostile user does.
 *
 * usage: racer FOLDER NAME ROUNDS KIND...
 *
 * A KIND is link:TARGET, hard:FILE, file, dir, fifo or none. All of them are made beside NAME first and then exchanged
 * with it in turn, so that there is no moment in which nothing is there. strike:TARGET looks until somebody else puts
 * something under the name and puts a link there at once; move:FILE does so with a file. ROUNDS 0: until killed. Waits
 * for the folder to be there. Prints how often it swapped.
 */
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { KINDS_MAX = 16 };

static volatile sig_atomic_t over;

static void on_signal(int number)
{
    (void)number;
    over = 1;
}

static int kind_make(int dir, const char *kind, const char *name)
{
    int fd;

    if (strncmp(kind, "link:", 5) == 0)
        return symlinkat(kind + 5, dir, name);
    if (strncmp(kind, "hard:", 5) == 0)
        return linkat(AT_FDCWD, kind + 5, dir, name, 0);
    if (strcmp(kind, "dir") == 0)
        return mkdirat(dir, name, 0777);
    if (strcmp(kind, "fifo") == 0)
        return mkfifoat(dir, name, 0666);
    if (strcmp(kind, "none") == 0)
        return 0;
    fd = openat(dir, name, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
    return fd < 0 ? -1 : close(fd);
}

/* Puts something over what another process has just made. */
static unsigned long strike(int dir, const char *name, const char *kind)
{
    bool move = strncmp(kind, "move:", 5) == 0;
    const char *from = move ? strchr(kind, ':') + 1 : ".racer-strike";
    struct stat st;

    if (!move && symlinkat(strchr(kind, ':') + 1, dir, from) < 0 && errno != EEXIST)
        return 0;
    while (!over)
        if (fstatat(dir, name, &st, AT_SYMLINK_NOFOLLOW) == 0 && !S_ISLNK(st.st_mode) && st.st_uid != getuid())
            return renameat(move ? AT_FDCWD : dir, from, dir, name) == 0;
    return 0;
}

/* One round: each kind is there once. What others put under the name goes away with it. */
static unsigned long round_run(int dir, const char *name, char **kinds, int count)
{
    unsigned long swaps = 0;

    for (int i = 0; i < count && !over; i++) {
        char made[32];

        if (strncmp(kinds[i], "strike:", 7) == 0 || strncmp(kinds[i], "move:", 5) == 0) {
            swaps += strike(dir, name, kinds[i]);
            continue;
        }
        (void)snprintf(made, sizeof(made), ".racer-%d", i);
        if (kind_make(dir, kinds[i], made) < 0 && errno != EEXIST)
            continue;
        if (strcmp(kinds[i], "none") == 0) {
            (void)unlinkat(dir, name, 0);
            (void)unlinkat(dir, name, AT_REMOVEDIR);
            swaps++;
        } else if (renameat2(dir, made, dir, name, RENAME_EXCHANGE) == 0) {
            swaps++;
            (void)unlinkat(dir, made, 0);
            (void)unlinkat(dir, made, AT_REMOVEDIR);
        } else if (renameat(dir, made, dir, name) == 0) {
            swaps++;
        }
    }
    return swaps;
}

int main(int argc, char **argv)
{
    unsigned long rounds, swaps = 0;
    int dir;

    if (argc < 5 || argc > 4 + KINDS_MAX) {
        (void)fputs("usage: racer FOLDER NAME ROUNDS KIND...\n", stderr);
        return 2;
    }
    (void)signal(SIGTERM, on_signal);
    do
        dir = open(argv[1], O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    while (dir < 0 && !over);
    rounds = strtoul(argv[3], NULL, 10);
    for (unsigned long i = 0; !over && (rounds == 0 || i < rounds); i++)
        swaps += round_run(dir, argv[2], argv + 4, argc - 4);
    (void)printf("%lu\n", swaps);
    return 0;
}
