/* SPDX-License-Identifier: Apache-2.0 */
/* local_token.c - see local_token.h. */
#include "io/local_token.h"

#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

enum { PLACES = 3, PLACE_MAX = 512 };

static int place_name(int place, char *out, size_t size)
{
    /* NOLINTNEXTLINE(concurrency-mt-unsafe): one thread */
    const char *base = place == 1 ? getenv("XDG_RUNTIME_DIR") : getenv("HOME");
    int n;

    if (place > 0 && (!base || base[0] != '/'))
        return -ENOENT;
    if (place > 0)
        n = snprintf(out, size, "%s%s/muster-dev", base, place == 1 ? "" : "/.cache");
    else if (geteuid() == 0)
        n = snprintf(out, size, "/run/muster-dev");
    else
        n = snprintf(out, size, "/run/user/%u/muster-dev", (unsigned)geteuid());
    return n > 0 && (size_t)n < size ? 0 : -ENAMETOOLONG;
}

/* The folder, opened; -ENOENT. */
static int place_open(int place, bool make, char *name, size_t size)
{
    struct stat st;
    int fd, r = place_name(place, name, size);

    if (r < 0)
        return r;
    if (make && mkdir(name, 0700) < 0 && errno == ENOENT && place == 2) {
        char *slash = strrchr(name, '/');

        *slash = '\0';
        (void)mkdir(name, 0700);
        *slash = '/';
        (void)mkdir(name, 0700);
    }
    fd = open(name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    if (fd < 0)
        return -errno;
    if (fstat(fd, &st) == 0 && st.st_uid == geteuid() && ((st.st_mode & 077) == 0 || (make && fchmod(fd, 0700) == 0)))
        return fd;
    (void)close(fd);
    return -EPERM;
}

static int token_write(int dir, const char *name, const char *token)
{
    char part[48];
    size_t length = strlen(token);
    int fd, r = 0;

    (void)snprintf(part, sizeof(part), ".%s.%ld", name, (long)getpid());
    (void)unlinkat(dir, part, 0);
    fd = openat(dir, part, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
    if (fd < 0)
        return -errno;
    if (write(fd, token, length) != (ssize_t)length)
        r = -EIO;
    (void)close(fd);
    if (r == 0 && renameat(dir, part, dir, name) < 0)
        r = -errno;
    if (r < 0)
        (void)unlinkat(dir, part, 0);
    return r;
}

int local_token_put(unsigned int port, const char *token, char *ret_path, size_t size, struct error *err)
{
    char name[PLACE_MAX], file[16];
    int dir, r = -ENOENT;

    (void)snprintf(file, sizeof(file), "%u", port);
    for (int place = 0; place < PLACES; place++) {
        dir = place_open(place, true, name, sizeof(name));
        if (dir < 0)
            continue;
        r = token_write(dir, file, token);
        (void)close(dir);
        if (r == 0) {
            (void)snprintf(ret_path, size, "%s/%s", name, file);
            return 0;
        }
    }
    return error_set(err, r,
                     "no folder for the token of --dev: set XDG_RUNTIME_DIR or HOME to one that only you can enter");
}

static int token_read(int dir, const char *name, char *ret_token, size_t size)
{
    int fd = openat(dir, name, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
    struct stat st;
    ssize_t n = -1;

    if (fd < 0)
        return -errno;
    if (fstat(fd, &st) == 0 && S_ISREG(st.st_mode) && st.st_uid == geteuid() && (st.st_mode & 077) == 0)
        n = read(fd, ret_token, size - 1);
    (void)close(fd);
    if (n <= 0)
        return -ENOENT;
    ret_token[n] = '\0';
    ret_token[strcspn(ret_token, "\r\n")] = '\0';
    return 0;
}

int local_token_get(unsigned int port, char *ret_token, size_t size)
{
    char name[PLACE_MAX], file[16];
    int r = -ENOENT;

    (void)snprintf(file, sizeof(file), "%u", port);
    for (int place = 0; r < 0 && place < PLACES; place++) {
        int dir = place_open(place, false, name, sizeof(name));

        if (dir < 0)
            continue;
        r = token_read(dir, file, ret_token, size);
        (void)close(dir);
    }
    return r;
}

int local_token_of_url(const char *url, char *ret_token, size_t size)
{
    static const char *const hosts[] = { "http://127.0.0.1", "http://localhost", "http://[::1]" };

    for (size_t i = 0; i < sizeof(hosts) / sizeof(hosts[0]); i++) {
        const char *rest = url + strlen(hosts[i]);

        if (strncmp(url, hosts[i], strlen(hosts[i])) != 0)
            continue;
        if (*rest == '\0' || *rest == '/')
            return local_token_get(80, ret_token, size);
        if (*rest == ':')
            return local_token_get((unsigned int)strtoul(rest + 1, NULL, 10), ret_token, size);
    }
    return -ENOENT;
}

void local_token_remove(unsigned int port)
{
    char name[PLACE_MAX], file[16];

    (void)snprintf(file, sizeof(file), "%u", port);
    for (int place = 0; place < PLACES; place++) {
        int dir = place_open(place, false, name, sizeof(name));

        if (dir < 0)
            continue;
        (void)unlinkat(dir, file, 0);
        (void)close(dir);
    }
}

enum { STATE_LISTEN = 10, TABLE_LINE = 512 };

/* One table of the kernel's: counts listeners at the port, and those of other users. -ENOENT: there is no table. */
static int table_count(const char *path, unsigned int port, int *ret_all, int *ret_others)
{
    FILE *file = fopen(path, "re");
    char line[TABLE_LINE];

    if (!file)
        return -ENOENT;
    while (fgets(line, sizeof(line), file)) {
        unsigned int here, state, uid;

        /* NOLINTNEXTLINE(cert-err34-c): the kernel's own words */
        if (sscanf(line, " %*d: %*[0-9A-F]:%x %*[0-9A-F]:%*x %x %*x:%*x %*x:%*x %*x %u", &here, &state, &uid) != 3 ||
            state != STATE_LISTEN || here != port)
            continue;
        (*ret_all)++;
        *ret_others += uid != 0 && uid != geteuid();
    }
    (void)fclose(file);
    return 0;
}

bool local_port_ours(unsigned int port)
{
    int all = 0, others = 0;
    int four = table_count("/proc/self/net/tcp", port, &all, &others);
    int six = table_count("/proc/self/net/tcp6", port, &all, &others);

    return (four < 0 && six < 0) || (all > 0 && others == 0);
}

int local_token_socket(unsigned int port, char *ret_path, size_t size)
{
    char name[PLACE_MAX];

    for (int place = 0; place < PLACES; place++) {
        int n, dir = place_open(place, false, name, sizeof(name));

        if (dir < 0)
            continue;
        (void)close(dir);
        n = snprintf(ret_path, size, "%s/%u.sock", name, port);
        return n > 0 && (size_t)n < size && (size_t)n < sizeof(((struct sockaddr_un *)NULL)->sun_path) ? 0
                                                                                                       : -ENAMETOOLONG;
    }
    return -ENOENT;
}
