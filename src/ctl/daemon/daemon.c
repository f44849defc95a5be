/* SPDX-License-Identifier: Apache-2.0 */
/* daemon.c - the life of musterd.
 *
 * Configuration, store, batcher, listeners, agents; then the loop. A first signal to end stops taking requests, lets
 * the batch under way become durable and answered, writes a snapshot and goes; a second one goes at once. What was
 * acknowledged is durable in either case.
 */
#include "ctl/daemon/daemon.h"

#include <errno.h>
#include <malloc.h>
#include <pwd.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include "base/alloc.h"
#include "ctl/daemon/fence.h"
#include "ctl/daemon/links.h"
#include "ctl/daemon/scrubber.h"
#include "ctl/http/oidc.h"
#include "ctl/insight/estimates.h"
#include "ctl/insight/feed.h"
#include "ctl/insight/forecast.h"
#include "ctl/insight/notify.h"
#include "ctl/insight/selfcheck.h"
#include "ctl/insight/stats.h"
#include "ctl/insight/watch.h"
#include "ctl/insight/whatif.h"
#include "ctl/log/settings_json.h"
#include "ctl/rest/common/job_history.h"
#include "ctl/rest/common/job_waiters.h"
#include "io/local_token.h"
#include "io/log.h"
#include "io/pki.h"
#include "wire/hived/hived_settings.h"
#include "wire/text/json_pool.h"

enum { QUEUE_BYTES_MAX = 32 << 20, FILES_KEPT = 32 };

struct daemon {
    struct server server;
    struct conf conf;
    const struct daemon_options *options;
    struct fake_nodes *fake;
    struct loop_timer *stop_timer;
    struct scrubber *scrubber;
    char temporary[64]; /* state that goes with us; "" */
    char url[160];
    char token_path[600]; /* of --dev; "": none */
    unsigned int port;    /* that it is named by */
    usec_t stop_before;
    bool fake_gone;
};

void notify_send(const char *text)
{
    const char *path = getenv("NOTIFY_SOCKET");
    struct sockaddr_un address = { .sun_family = AF_UNIX };
    int fd;

    if (!path || !*path || strlen(path) >= sizeof(address.sun_path))
        return;
    memcpy(address.sun_path, path, strlen(path) + 1);
    if (path[0] == '@')
        address.sun_path[0] = '\0';
    fd = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    if (fd < 0)
        return;
    (void)sendto(fd, text, strlen(text), MSG_NOSIGNAL, (struct sockaddr *)&address,
                 (socklen_t)(offsetof(struct sockaddr_un, sun_path) + strlen(path)));
    (void)close(fd);
}

static int text_put(char **to, const char *text)
{
    mem_free(*to);
    *to = mem_strdup(text);
    return *to ? 0 : -ENOMEM;
}

/* A folder of our own for a cluster that is tried out. */
static int state_temporary(struct daemon *daemon, struct error *err)
{
    const char *where = getenv("TMPDIR");

    (void)snprintf(daemon->temporary, sizeof(daemon->temporary), "%s/muster-dev-XXXXXX",
                   where && strlen(where) < 30 ? where : "/tmp");
    if (!mkdtemp(daemon->temporary)) {
        daemon->temporary[0] = '\0';
        return error_set(err, -errno, "cannot make a folder for the state: %s", strerror(errno));
    }
    return text_put(&daemon->conf.state, daemon->temporary);
}

static int conf_standard(struct daemon *daemon, struct error *err)
{
    struct conf *conf = &daemon->conf;
    int r = 0;

    if (!conf->cluster)
        r = text_put(&conf->cluster, daemon->options->dev ? "dev" : "muster");
    if (r == 0 && !conf->policy)
        r = text_put(&conf->policy, CONF_POLICY);
    if (r == 0 && daemon->options->listen) {
        for (size_t i = 0; i < conf->listen_count; i++)
            mem_free(take(conf->listen[i]));
        conf->listen_count = 0;
        r = text_put(&conf->listen[conf->listen_count++], daemon->options->listen);
    }
    if (r == 0 && conf->listen_count == 0)
        r = text_put(&conf->listen[conf->listen_count++], daemon->options->dev ? "127.0.0.1:7717" : ":7717");
    if (r == 0 && daemon->options->state)
        r = text_put(&conf->state, daemon->options->state);
    if (r == 0 && !conf->state)
        return daemon->options->dev ? state_temporary(daemon, err)
                                    : error_set(err, -EINVAL, "state: no folder for the state");
    return r < 0 ? error_set(err, r, "out of memory") : 0;
}

static int conf_load(struct daemon *daemon, struct error *err)
{
    const struct daemon_options *options = daemon->options;
    struct conf *conf = &daemon->conf;
    int r = 0;

    conf_init(conf);
    if (options->dev) {
        conf->node_timeout = 10 * USEC_SEC; /* laptops are busy */
        conf->beat = USEC_SEC;
        conf->lease = 60 * USEC_SEC;
        conf->fence = CONF_FENCE_LEASE; /* nothing may be left on the machine for good */
        conf->conns_address_max = conf->conns_max;
        conf->user_conns_max = conf->user_requests_max = conf->conns_max; /* everybody is the same one */
        conf->user_jobs_max = conf->jobs_max;
    }
    if (options->config)
        r = conf_read(options->config, conf, err);
    if (r == 0)
        r = conf_standard(daemon, err);
    if (r == 0)
        r = conf_check(conf, err);
    if (r == 0 && conf->log)
        log_level_set((enum log_level)log_level_find(conf->log));
    if (r == 0 && options->log) {
        if (log_level_find(options->log) < 0)
            return error_set(err, -EINVAL, "--log: expected err, warn, info or debug");
        log_level_set((enum log_level)log_level_find(options->log));
    }
    return r;
}

/* As many files as we may have: one a connection. Some are kept back: with the last one gone the store could not write.
 */
static void files_raise(struct conf *conf)
{
    struct rlimit limit;
    int64_t room;

    if (getrlimit(RLIMIT_NOFILE, &limit) < 0 || limit.rlim_max == RLIM_INFINITY)
        return;
    limit.rlim_cur = limit.rlim_max;
    (void)setrlimit(RLIMIT_NOFILE, &limit);
    room = (int64_t)limit.rlim_max - FILES_KEPT;
    room = room > 1 ? room : 1;
    if (room >= conf->conns_max)
        return;
    log_warn("fewer files may be open than connections are allowed: LimitNOFILE, ulimit -n", "files",
             LOG_I64((int64_t)limit.rlim_max), "connections", LOG_I64(room));
    conf->conns_max = room;
    conf->conns_address_max = conf->conns_address_max < room ? conf->conns_address_max : room;
}

static void self_fill(struct server *server)
{
    struct passwd entry, *found = NULL;
    char text[4096];

    server->uid = geteuid();
    server->gid = getegid();
    server->started = clock_now();
    if (getpwuid_r(server->uid, &entry, text, sizeof(text), &found) == 0 && found)
        (void)snprintf(server->user, sizeof(server->user), "%s", found->pw_name);
    else
        (void)snprintf(server->user, sizeof(server->user), "uid%u", (unsigned)server->uid);
}

static void on_answered(void *arg, const struct request *request, usec_t took)
{
    struct server *server = arg;

    stats_request(server->stats, request, took);
}

static int parts_make(struct daemon *daemon, struct error *err)
{
    struct server *server = &daemon->server;
    const struct conf *conf = &daemon->conf;
    struct http_server_config http = {
        .limits = HTTP_LIMITS_STANDARD,
        .header_time = conf->header_time,
        .body_time = conf->body_time,
        .idle_time = conf->idle_time,
        .send_time = conf->send_time,
        .queue_max = QUEUE_BYTES_MAX,
        .handle = route_handle,
        .identify = route_identify,
        .user_connections = (uint32_t)conf->user_conns_max,
        .user_requests = (uint32_t)conf->user_requests_max,
        .user_bytes = (size_t)conf->user_bytes_max,
        .answered = on_answered,
        .arg = server,
    };

    http.limits.body_max = (size_t)conf->body_max;
    server->stats = mem_zalloc(1, sizeof(*server->stats));
    if (!server->stats || feed_new(server->loop, (size_t)conf->sse_max, &server->feed) < 0 ||
        links_new(server, &server->links) < 0 || forecast_new(server, &server->forecast) < 0 ||
        watch_new(server, &server->watch) < 0 || selfcheck_new(server, &server->selfcheck) < 0 ||
        notify_new(server, &server->notify) < 0 || waits_new(server, &server->waits) < 0 ||
        whatifs_new(server, &server->whatifs) < 0 || estimates_new(server, &server->estimates) < 0 ||
        past_new(server, &server->past) < 0 || oidc_new(server, &server->oidc) < 0 ||
        http_server_new(server->loop, &http, &server->http) < 0)
        return error_set(err, -ENOMEM, "out of memory");
    return 0;
}

static int listen_one(struct daemon *daemon, const char *address, struct error *err)
{
    struct server *server = &daemon->server;
    const struct conf *conf = &daemon->conf;
    struct net_options options = {
        .address = address,
        .tls = address[0] == '/' ? NULL : server->tls,
        .conns_max = (size_t)conf->conns_max,
        .conns_address_max = (size_t)conf->conns_address_max,
        .handshake = conf->header_time,
        .socket_mode = server->dev ? 0600 : 0666,
    };
    struct net_listener *listener = NULL;
    int r = http_server_listen(server->http, &options, &listener, err);

    if (r < 0)
        return r;
    server->listeners[server->listener_count++] = listener;
    log_info("listening", "on", net_listener_address(listener), "tls", options.tls ? "yes" : "no");
    if (!daemon->url[0] && address[0] != '/')
        (void)snprintf(daemon->url, sizeof(daemon->url), "%s://%s", options.tls ? "https" : "http",
                       net_listener_address(listener));
    return 0;
}

/* Who started it is known by a token and by a socket, which lie in a folder of that user's. */
static int dev_open(struct daemon *daemon, struct error *err)
{
    struct server *server = &daemon->server;
    const char *port = strrchr(daemon->url, ':');
    char path[512], secret[48];

    daemon->port = port ? (unsigned int)strtoul(port + 1, NULL, 10) : 0;
    if (pki_random_text(32, secret, sizeof(secret)) < 0 ||
        pki_random_text(32, server->dev_code, sizeof(server->dev_code)) < 0)
        return error_set(err, -EIO, "no random numbers");
    (void)snprintf(server->dev_token, sizeof(server->dev_token), "mus_%s", secret);
    explicit_bzero(secret, sizeof(secret));
    if (daemon->port == 0)
        return 0; /* it listens on sockets alone */
    if (local_token_put(daemon->port, server->dev_token, daemon->token_path, sizeof(daemon->token_path), err) < 0)
        return err->code;
    if (server->listener_count >= LISTENERS_MAX || local_token_socket(daemon->port, path, sizeof(path)) < 0)
        return 0;
    return listen_one(daemon, path, err);
}

static int listen_all(struct daemon *daemon, struct error *err)
{
    struct server *server = &daemon->server;
    const struct conf *conf = &daemon->conf;
    int r = 0;

    if (conf->tls_cert && !server->dev)
        r = tls_server_new(&(struct tls_files){ conf->tls_cert, conf->tls_key, conf->tls_ca }, &server->tls, err);
    for (size_t i = 0; r == 0 && i < conf->listen_count; i++)
        r = listen_one(daemon, conf->listen[i], err);
    return r == 0 && server->dev ? dev_open(daemon, err) : r;
}

/* The virtual clusters and licences of the file, as a change like any other; what the file does not speak of stays. */
static void on_configured(void *arg, const struct entry_result *result)
{
    (void)arg;
    if (result->code < 0)
        log_err("the virtual clusters or licences of the configuration were refused; what there was stays", "error",
                result->text.text);
}

static int vcs_offer(struct daemon *daemon, struct error *err)
{
    struct entry_result refused = { 0 };
    json_t *now, *body, *licenses;
    int r;

    if (!daemon->conf.vcs && !daemon->conf.cells && !daemon->conf.licenses)
        return 0;
    now = settings_tree(batcher_ctl(daemon->server.batcher));
    licenses = daemon->conf.licenses ? daemon->conf.licenses : json_object_get(now, "licenses");
    if (daemon->conf.vcs || daemon->conf.cells)
        body = json_pack("{s:O*, s:s}", "vcs", daemon->conf.vcs, "policy", daemon->conf.policy);
    else
        body = json_is_object(now) ? json_deep_copy(now) : json_object();
    if (licenses)
        (void)json_object_set(body, "licenses", licenses);
    if (daemon->conf.cells)
        (void)json_object_update(body, daemon->conf.cells);
    settings_arrange(now, body, true);
    json_decref(now);
    r = hived_settings_fill(body, err); /* the reader of the file has seen it: only memory can be short */
    if (r < 0) {
        json_decref(body);
        return r;
    }
    if (batcher_offer_json(daemon->server.batcher, ENTRY_CONFIG, body, on_configured, NULL, &refused) == 0)
        return 0;
    on_configured(NULL, &refused);
    return error_set(err, refused.code, "%s", refused.text.text);
}

static void stop_now(struct daemon *daemon)
{
    loop_stop(daemon->server.loop);
}

static void on_stop_tick(void *arg)
{
    struct daemon *daemon = arg;
    struct server *server = &daemon->server;

    batcher_turn(server->batcher);
    if ((batcher_quiet(server->batcher) && (daemon->fake_gone || !daemon->fake)) || clock_now() > daemon->stop_before)
        stop_now(daemon);
}

static void on_fake_gone(void *arg)
{
    struct daemon *daemon = arg;

    daemon->fake_gone = true;
}

static void on_stop(void *arg)
{
    struct daemon *daemon = arg;
    struct server *server = &daemon->server;

    if (server->stopping) {
        stop_now(daemon);
        return;
    }
    log_info("stopping");
    notify_send("STOPPING=1");
    server->stopping = true;
    daemon->stop_before = clock_now() + 10 * USEC_SEC;
    for (size_t i = 0; i < server->listener_count; i++)
        net_listener_close(take(server->listeners[i]));
    server->listener_count = 0;
    if (daemon->fake)
        fake_stop(daemon->fake, on_fake_gone, daemon);
    loop_timer_every(daemon->stop_timer, 10 * USEC_MSEC);
}

/* As before, where the file says nothing of it any more. */
static void policy_swap(struct conf *conf, struct conf *fresh)
{
    char *old = conf->policy;

    if (!fresh->policy)
        return;
    conf->policy = fresh->policy;
    fresh->policy = old;
}

/* SIGHUP: virtual clusters, admins, log level and certificates anew. What needs a restart is said. */
static int reload(void *arg, struct error *ret_err)
{
    struct daemon *daemon = arg;
    struct tls_context *tls = NULL;
    struct conf fresh;
    struct error err = { 0 };
    int r, result;

    notify_send("RELOADING=1");
    conf_init(&fresh);
    r = conf_read(daemon->options->config, &fresh, &err);
    if (r == 0)
        r = conf_vcs_check(&fresh, &err);
    if (r == 0 && fresh.tls_cert && daemon->server.tls)
        r = tls_server_new(&(struct tls_files){ fresh.tls_cert, fresh.tls_key, fresh.tls_ca }, &tls, &err);
    result = r;
    if (r < 0) {
        log_err("not reloaded; what there was stays", "error", err.text);
        *ret_err = err;
    } else {
        json_t *vcs = daemon->conf.vcs, *licenses = daemon->conf.licenses, *cells = daemon->conf.cells;

        daemon->conf.vcs = take(fresh.vcs);
        daemon->conf.cells = take(fresh.cells);
        daemon->conf.licenses = take(fresh.licenses);
        policy_swap(&daemon->conf, &fresh);
        json_decref(vcs);
        json_decref(cells);
        json_decref(licenses);
        for (size_t i = 0; i < CONF_ADMINS_MAX; i++) {
            char *admin = daemon->conf.admins[i];

            daemon->conf.admins[i] = fresh.admins[i];
            fresh.admins[i] = admin;
        }
        r = (int)daemon->conf.admin_count;
        daemon->conf.admin_count = fresh.admin_count;
        fresh.admin_count = (size_t)r;
        daemon->conf.metrics_jobs = fresh.metrics_jobs;
        daemon->conf.metrics_users = fresh.metrics_users;
        if (fresh.log)
            log_level_set((enum log_level)log_level_find(fresh.log));
        /* The old context stays for the connections that use it. */
        for (size_t i = 0; tls && i < daemon->server.listener_count; i++)
            if (net_listener_address(daemon->server.listeners[i])[0] != '/')
                net_listener_tls(daemon->server.listeners[i], tls);
        result = vcs_offer(daemon, ret_err);
        log_info("reloaded", "file", daemon->options->config);
    }
    conf_done(&fresh);
    notify_send("READY=1");
    return result;
}

static void on_reload(void *arg)
{
    struct daemon *daemon = arg;
    struct error err = { 0 };

    if (daemon->options->config)
        (void)reload(daemon, &err); /* it has said what was wrong */
}

/* Is what is printed kept in a file that other users can read? */
static bool printed_publicly(void)
{
    struct stat st;

    return fstat(STDOUT_FILENO, &st) < 0 || (S_ISREG(st.st_mode) && (st.st_mode & 077));
}

static void greet(const struct daemon *daemon)
{
    char folder[4096];

    if (!daemon->options->dev)
        return;
    printf("musterd: %s, cluster '%s', state in %s\n", daemon->url, daemon->conf.cluster, daemon->conf.state);
    if (daemon->options->fake)
        printf("musterd: emulating %s; jobs are real processes, GPUs are not\n", daemon->options->fake);
    if (daemon->options->fake && fake_shut(daemon->conf.state, folder, sizeof(folder)))
        printf("musterd: only root's jobs can run there: other users may not enter %s; for theirs leave --fake out and "
               "start muster-agent --fake with a --state they may\n",
               folder);
    if (daemon->token_path[0])
        printf("musterd: its token is in %s, where muster finds it\n", daemon->token_path);
    if (daemon->token_path[0] && !printed_publicly())
        printf("musterd: for other programs: export MUSTER_TOKEN=%s\n"
               "musterd: the dashboard, by a link that works once: %s/#once=%s\n",
               daemon->server.dev_token, daemon->url, daemon->server.dev_code);
    printf("musterd: export MUSTER_URL=%s\n", daemon->url);
    (void)fflush(stdout);
}

static int daemon_start(struct daemon *daemon, struct error *err)
{
    struct server *server = &daemon->server;
    int r = conf_load(daemon, err);

    daemon->conf.bare_images = daemon->options->bare_images;
    if (r == 0 && daemon->options->fake)
        r = fake_check(daemon->options->fake, err);
    if (r < 0 || daemon->options->check)
        return r;
    files_raise(&daemon->conf);
    r = loop_new(&server->loop, err);
    if (r == 0 && host_turns(server) < 0)
        r = error_set(err, -ENOMEM, "out of memory");
    if (r == 0)
        r = parts_make(daemon, err);
    if (r == 0 && mkdir(daemon->conf.state, 0700) < 0 && errno != EEXIST)
        r = error_set(err, -errno, "%s: %s", daemon->conf.state, strerror(errno));
    if (r == 0)
        r = batcher_open(server, err);
    if (r == 0 && scrubber_new(server, &daemon->scrubber) < 0)
        r = error_set(err, -ENOMEM, "out of memory");
    if (r == 0 && fence_new(server, &server->fence) < 0)
        r = error_set(err, -ENOMEM, "out of memory");
    if (r == 0)
        estimates_start(server->estimates);
    if (r == 0)
        r = listen_all(daemon, err);
    if (r == 0)
        r = loop_timer_new(server->loop, on_stop_tick, daemon, &daemon->stop_timer);
    if (r < 0)
        return r;
    (void)loop_signal(server->loop, SIGTERM, on_stop, daemon);
    (void)loop_signal(server->loop, SIGINT, on_stop, daemon);
    (void)loop_signal(server->loop, SIGHUP, on_reload, daemon);
    if (daemon->options->config) {
        server->reload = reload;
        server->reload_arg = daemon;
    }
    (void)vcs_offer(daemon, NULL); /* it has said what was wrong */
    secret_keys_open(server);
    if (daemon->conf.oidc.user_claim && strcmp(daemon->conf.oidc.user_claim, "sub") != 0)
        log_warn("people are known by a claim that their issuer may give to another person, or let them choose; "
                 "auth.oidc.users names subjects, which stay the same",
                 "claim", daemon->conf.oidc.user_claim);
    if (daemon->options->fake)
        r = fake_start(server, daemon->options->fake, daemon->url, daemon->temporary[0] != '\0', &daemon->fake, err);
    return r;
}

static void temporary_remove(const struct daemon *daemon)
{
    char command[128];

    if (!daemon->temporary[0])
        return;
    (void)snprintf(command, sizeof(command), "rm -rf -- '%s'", daemon->temporary);
    /* NOLINTNEXTLINE(cert-env33-c,concurrency-mt-unsafe): a path of mkdtemp's */
    if (system(command) != 0)
        log_warn("state left behind", "folder", daemon->temporary);
}

static void daemon_end(struct daemon *daemon)
{
    struct server *server = &daemon->server;
    struct error err;

    if (daemon->token_path[0])
        local_token_remove(daemon->port);
    for (size_t i = 0; i < server->listener_count; i++)
        net_listener_close(server->listeners[i]);
    loop_work_finish(server->loop);
    if (server->batcher && server->stopping && batcher_close(server->batcher, &err) < 0)
        log_err("no snapshot at the end", "error", err.text);
    http_server_stop(take(server->http));
    fake_free(daemon->fake);
    whatifs_stop(server->whatifs);
    oidc_stop(server->oidc);
    estimates_free(take(server->estimates));
    past_free(take(server->past));
    scrubber_free(daemon->scrubber);
    fence_free(take(server->fence));
    loop_timer_free(daemon->stop_timer);
    loop_timer_free(server->wake);
    watch_stop(server->watch);
    notify_stop(server->notify);
    batcher_free(take(server->batcher));
    secret_keys_close(server);
    feed_stop(server->feed);
    links_stop(server->links);
    waits_stop(server->waits);
    loop_free(server->loop); /* connections close in here */
    forecast_free(server->forecast);
    watch_free(server->watch);
    selfcheck_free(server->selfcheck);
    notify_free(server->notify);
    whatifs_free(server->whatifs);
    oidc_free(server->oidc);
    feed_free(server->feed);
    links_free(server->links);
    waits_free(server->waits);
    store_close(server->store);
    tls_context_free(server->tls);
    mem_free(server->stats);
    conf_done(&daemon->conf);
    temporary_remove(daemon);
}

int daemon_run(const struct daemon_options *options)
{
    static struct daemon daemon;
    struct error err = { 0 };
    int r;

    daemon.options = options;
    daemon.server.conf = &daemon.conf;
    daemon.server.dev = options->dev;
    (void)signal(SIGPIPE, SIG_IGN);
    /* Tables are made for the most jobs there may be and are nearly empty: huge pages would fill memory with nothing.
     */
    (void)prctl(PR_SET_THP_DISABLE, 1, 0, 0, 0);
    /* And each is a mapping of its own, also the second time: what comes from the heap would be written with zeros. */
    (void)mallopt(M_MMAP_THRESHOLD, 1 << 20);
    json_pool_keep();
    self_fill(&daemon.server);
    r = daemon_start(&daemon, &err);
    if (r < 0)
        fprintf(stderr, "musterd: error: %s\n", err.text);
    if (r == 0 && !options->check) {
        greet(&daemon);
        notify_send("READY=1");
        log_info("ready", "cluster", daemon.conf.cluster, "state", daemon.conf.state);
        loop_run(daemon.server.loop);
        log_info("stopped");
    }
    if (daemon.server.loop)
        daemon_end(&daemon);
    else
        conf_done(&daemon.conf);
    json_pool_drop();
    return r == 0 ? 0 : r == -EINVAL ? 2 : 1;
}
