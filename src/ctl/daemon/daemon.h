/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/* daemon.h - musterd as a whole: what main() is told, and its life from the store to the last connection. */
#include "ctl/daemon/server.h"

struct daemon_options {
    const char *config, *listen, *state, *fake, *log;
    bool dev, check, bare_images;
};

/* Runs until it is told to stop; the exit status. */
int daemon_run(const struct daemon_options *options);

/* `musterd init`. */
struct init_options {
    const char *dir, *state, *hosts, *cluster;
    int nodes; /* that may join by the first token */
};
int init_run(const struct init_options *options);

/* What the batcher needs of a loop. `server` is the argument of the host. */
void host_fill(struct server *server, struct batcher_host *ret_host);
int batcher_open(struct server *server, struct error *err);
/* The batcher's place in each turn of the loop: before all others, who send what it makes. */
int host_turns(struct server *server);

/* dev.c: emulated nodes in this process. */
struct fake_nodes;
/* "4x8:H100[,2x4:A100]"; passing: their state goes with us. */
int fake_check(const char *text, struct error *err);
int fake_start(struct server *server, const char *text, const char *url, bool passing, struct fake_nodes **ret_nodes,
               struct error *err);
/* The folder that keeps jobs of other users from their files below it; false: there is none, or jobs are all ours. */
bool fake_shut(const char *state, char *ret_folder, size_t size);
void fake_stop(struct fake_nodes *nodes, void (*done)(void *arg), void *arg);
void fake_free(struct fake_nodes *nodes);

/* secret_keys.c: read, or made; what is wrong is logged. */
void secret_keys_open(struct server *server);
void secret_keys_close(struct server *server);

/* To systemd, where it listens. */
void notify_send(const char *text);
