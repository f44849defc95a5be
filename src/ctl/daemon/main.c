/* SPDX-License-Identifier: Apache-2.0 */
/* main.c - musterd: the controller. musterd(8). */
#include <argp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "agent/embed.h"
#include "ctl/daemon/daemon.h"
#include "ctl/daemon/fsck.h"
#include "ctl/http/fetch.h"
#include "ctl/http/pam.h"
#include "ctl/state/registry.h"
#include "wire/text/decimal.h"

const char *argp_program_version = "musterd " MUSTER_VERSION;

enum { KEY_DEV = 0x100, KEY_FAKE, KEY_STATE, KEY_LOG, KEY_CHECK, KEY_DIR, KEY_HOSTS, KEY_CLUSTER, KEY_NODES, KEY_BARE };

static const struct argp_option run_options[] = {
    { "config", 'c', "FILE", 0, "read FILE (muster.yaml(5)) and conf.d beside it", 0 },
    { "dev", KEY_DEV, NULL, 0, "a cluster on this machine alone: loopback, no TLS, everybody here is you", 0 },
    { "fake", KEY_FAKE, "NxG:TYPE[@RACK]", 0, "with --dev: emulate N nodes with G GPUs each, like 4x8:H100", 0 },
    { "bare-images", KEY_BARE, NULL, 0, "with --fake: jobs that name an image run without it, and are told", 0 },
    { "listen", 'l', "ADDR:PORT", 0, "where to listen, in place of what the file says", 0 },
    { "state", KEY_STATE, "DIR", 0, "where the state is kept; with --dev a folder that goes with musterd", 0 },
    { "log", KEY_LOG, "LEVEL", 0, "err, warn, info or debug", 0 },
    { "check", KEY_CHECK, NULL, 0, "read the configuration, say what is wrong, and end", 0 },
    { 0 },
};

static error_t run_parse(int key, char *arg, struct argp_state *state)
{
    struct daemon_options *options = state->input;

    switch (key) {
    case 'c':
        options->config = arg;
        break;
    case KEY_DEV:
        options->dev = true;
        break;
    case KEY_FAKE:
        options->fake = arg;
        break;
    case KEY_BARE:
        options->bare_images = true;
        break;
    case 'l':
        options->listen = arg;
        break;
    case KEY_STATE:
        options->state = arg;
        break;
    case KEY_LOG:
        options->log = arg;
        break;
    case KEY_CHECK:
        options->check = true;
        break;
    case ARGP_KEY_ARG:
        argp_error(state, "unknown word '%s'", arg);
        break;
    case ARGP_KEY_END:
        if (options->fake && !options->dev)
            argp_error(state, "--fake goes with --dev");
        if (options->bare_images && !options->fake)
            argp_error(state, "--bare-images goes with --fake");
        if (!options->dev && !options->config)
            argp_error(state, "say --config FILE, or --dev to try it out");
        break;
    default:
        return ARGP_ERR_UNKNOWN;
    }
    return 0;
}

static const struct argp_option init_options_list[] = {
    { "dir", KEY_DIR, "DIR", 0, "where configuration, keys and certificates go (/etc/muster)", 0 },
    { "state", KEY_STATE, "DIR", 0, "where the state will be kept (/var/lib/muster)", 0 },
    { "hosts", KEY_HOSTS, "A,B", 0, "names and addresses the controller is reached by (this machine's name)", 0 },
    { "cluster", KEY_CLUSTER, "NAME", 0, "name of the cluster (muster)", 0 },
    { "nodes", KEY_NODES, "N", 0, "how many nodes may join by the token that is printed (1)", 0 },
    { 0 },
};

static error_t init_parse(int key, char *arg, struct argp_state *state)
{
    struct init_options *options = state->input;
    int64_t nodes;

    switch (key) {
    case KEY_DIR:
        options->dir = arg;
        break;
    case KEY_STATE:
        options->state = arg;
        break;
    case KEY_HOSTS:
        options->hosts = arg;
        break;
    case KEY_CLUSTER:
        options->cluster = arg;
        break;
    case KEY_NODES:
        if (decimal_parse_i64(arg, strlen(arg), &nodes) < 0 || nodes < 1 || nodes > JOIN_NODES_MAX)
            argp_error(state, "--nodes: expected 1 to %d, got '%.40s'", JOIN_NODES_MAX, arg);
        options->nodes = (int)nodes;
        break;
    case ARGP_KEY_ARG:
        argp_error(state, "unknown word '%s'", arg);
        break;
    default:
        return ARGP_ERR_UNKNOWN;
    }
    return 0;
}

/* musterd restore FILE --state DIR */
struct restore_options {
    const char *file, *state;
};

static error_t restore_parse(int key, char *arg, struct argp_state *state)
{
    struct restore_options *options = state->input;

    switch (key) {
    case KEY_STATE:
        options->state = arg;
        break;
    case ARGP_KEY_ARG:
        if (options->file)
            argp_error(state, "one backup at a time");
        options->file = arg;
        break;
    case ARGP_KEY_END:
        if (!options->file || !options->state)
            argp_error(state, "say which: musterd restore FILE --state DIR");
        break;
    default:
        return ARGP_ERR_UNKNOWN;
    }
    return 0;
}

static const struct argp_option restore_list[] = {
    { "state", KEY_STATE, "DIR", 0, "where the state will be; nothing may be there", 0 },
    { 0 },
};

static const struct argp restore_argp = { restore_list, restore_parse, "FILE", "Makes a store of a backup.",
                                          NULL,         NULL,          NULL };

static int restore_run(const struct restore_options *options)
{
    struct error err = { 0 };

    if (store_restore(options->file, options->state, &err) < 0) {
        fprintf(stderr, "musterd: error: %s\n", err.text);
        return 1;
    }
    printf("The state of %s is in %s.\n"
           "Secrets of users in it are read with the keys of that controller (secrets_key in muster.yaml), which no "
           "backup "
           "has.\n",
           options->file, options->state);
    return 0;
}

static const struct argp run_argp = { run_options,
                                      run_parse,
                                      "\ninit [OPTION...]\nrestore FILE --state DIR\nfsck [--repair] DIR",
                                      "The controller of a muster cluster.\v`musterd init` makes keys, certificates, a "
                                      "configuration and the first tokens.",
                                      NULL,
                                      NULL,
                                      NULL };
static const struct argp init_argp = { init_options_list,
                                       init_parse,
                                       NULL,
                                       "Makes an authority, a certificate, a configuration and the first tokens.",
                                       NULL,
                                       NULL,
                                       NULL };

int main(int argc, char **argv)
{
    struct daemon_options options = { 0 };
    struct init_options init = { .dir = "/etc/muster", .state = "/var/lib/muster", .cluster = "muster", .nodes = 1 };
    struct restore_options restore = { 0 };
    char name[] = "musterd init", restore_name[] = "musterd restore", fsck_name[] = "musterd fsck";
    int r = agent_child(argc, argv);

    if (r >= 0)
        return r;
    if (argc == 3 && strcmp(argv[1], "login-check") == 0)
        return pam_check_run(argv[2]);
    if ((argc == 2 || argc == 3) && strcmp(argv[1], "fetch") == 0)
        return fetch_run(argc == 3 ? argv[2] : NULL);
    argp_err_exit_status = 2;
    if (argc > 1 && strcmp(argv[1], "init") == 0) {
        argv[1] = name;
        argp_parse(&init_argp, argc - 1, argv + 1, 0, NULL, &init);
        return init_run(&init);
    }
    if (argc > 1 && strcmp(argv[1], "restore") == 0) {
        argv[1] = restore_name;
        argp_parse(&restore_argp, argc - 1, argv + 1, 0, NULL, &restore);
        return restore_run(&restore);
    }
    if (argc > 1 && strcmp(argv[1], "fsck") == 0) {
        argv[1] = fsck_name;
        return fsck_run(argc - 1, argv + 1);
    }
    argp_parse(&run_argp, argc, argv, 0, NULL, &options);
    return daemon_run(&options);
}
