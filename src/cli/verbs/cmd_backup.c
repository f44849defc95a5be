/* SPDX-License-Identifier: Apache-2.0 */
/* cmd_backup.c - muster cluster backup, restore: the state of a controller in one file, and back. A backup is made
 * while all goes on; restoring is musterd's affair, on the machine where it is to run. */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "cli/verbs/live.h"
#include "io/beside.h"

struct copy {
    int fd;
    int64_t size;
    int error;
};

static int on_bytes(void *arg, const char *data, size_t size)
{
    struct copy *copy = arg;

    while (size > 0) {
        ssize_t put = write(copy->fd, data, size);

        if (put < 0 && errno == EINTR)
            continue;
        if (put <= 0) {
            copy->error = errno;
            return 1;
        }
        data += put;
        size -= (size_t)put;
        copy->size += put;
    }
    return 0;
}

/* Under another name until it is whole. */
static int backup(struct command_args *args)
{
    CLEANUP(client_free) struct client *client = NULL;
    struct problem problem = { 0 };
    struct copy copy = { 0 };
    char part[4096];
    int r = live_client(args, &client);

    if (r)
        return r;
    if (snprintf(part, sizeof(part), "%s.part", args->words[0]) >= (int)sizeof(part))
        return args_wrong(args, "the name of the file is too long");
    copy.fd = open(part, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
    if (copy.fd < 0) {
        (void)problem_set(&problem, CODE_FAILED, "", "%s: %s", part,
                          strerror(errno)); /* NOLINT(concurrency-mt-unsafe) */
        return problem_print(&problem);
    }
    r = client_stream(client, "/backup", NULL, on_bytes, &copy, &problem);
    if (r == 0 && (copy.error || fsync(copy.fd) < 0 || copy.size == 0))
        r = problem_set(&problem, CODE_FAILED, "", "%s: %s", part,
                        copy.error ? strerror(copy.error) : "nothing came"); /* NOLINT(concurrency-mt-unsafe) */
    (void)close(copy.fd);
    if (r == 0 && rename(part, args->words[0]) < 0)
        r = problem_set(&problem, CODE_FAILED, "", "%s: cannot be named so", args->words[0]);
    if (r) {
        (void)unlink(part);
        return problem_print(&problem);
    }
    if (cli_json)
        (void)printf("{\"apiVersion\":\"v1\",\"kind\":\"Backup\",\"size_bytes\":%lld}\n", (long long)copy.size);
    else
        (void)printf("%s: %lld bytes; muster cluster restore FILE --state DIR makes a store of it\n", args->words[0],
                     (long long)copy.size);
    return CODE_DONE;
}

/* musterd beside this program, or on the path. */
static int restore(struct command_args *args)
{
    static char name[] = "musterd", verb[] = "restore", flag[] = "--state";
    const char *state = args_value(args, "state");
    char here[4096], folder[4096];
    char *words[] = { name, verb, args->words[0], flag, folder, NULL };
    struct problem problem;

    if (!state || strlen(state) >= sizeof(folder))
        return args_wrong(args, "--state DIR is needed: where the controller that is to have it keeps its state");
    (void)snprintf(folder, sizeof(folder), "%s", state);
    if (beside_find(name, here, sizeof(here)) == 0)
        (void)execv(here, words);
    (void)execvp(name, words);
    (void)problem_set(&problem, CODE_FAILED, "", "musterd is not there: %s", strerror(errno)); /* NOLINT */
    problem_hint(&problem, "restore on the machine where musterd is installed");
    return problem_print(&problem);
}

int cmd_cluster_store(struct command_args *args)
{
    return strcmp(args->command->name, "backup") == 0 ? backup(args) : restore(args);
}
