/* SPDX-License-Identifier: Apache-2.0 */
/* main.c - muster-k8s: a scheduler of Kubernetes. muster-k8s(8). */
#include <argp.h>
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/alloc.h"
#include "io/clock.h"
#include "io/log.h"
#include "k8s/ask.h"
#include "k8s/lease.h"
#include "k8s/routes.h"
#include "k8s/sched.h"
#include "k8s/serve.h"
#include "wire/text/decimal.h"
#include "wire/text/json_pool.h"

const char *argp_program_version = "muster-k8s " MUSTER_VERSION;

#define ACCOUNT "/var/run/secrets/kubernetes.io/serviceaccount"

enum {
    KEY_SERVER = 0x100,
    KEY_CA,
    KEY_TOKEN,
    KEY_CERT,
    KEY_CERT_KEY,
    KEY_NAME,
    KEY_LEASE,
    KEY_LEASE_NS,
    KEY_DURATION,
    KEY_IDENTITY,
    KEY_NO_LEASE,
    KEY_LOG,
    KEY_CHECK,
    KEY_STRETCH,
    KEY_PARALLEL
};

struct options {
    const char *config, *server, *ca, *token, *cert, *cert_key, *name, *lease, *lease_namespace, *identity, *listen;
    int64_t duration, stretch, parallel;
    bool no_lease, check;
};

static const struct argp_option options_known[] = {
    { "config", 'c', "FILE", 0, "read virtual clusters and policies from FILE", 0 },
    { "server", KEY_SERVER, "URL", 0, "the API server; by default that of the pod it runs in", 0 },
    { "ca", KEY_CA, "FILE", 0, "the certificate authority of the API server", 0 },
    { "token", KEY_TOKEN, "FILE", 0, "the token to authenticate with; read again every minute", 0 },
    { "cert", KEY_CERT, "FILE", 0, "the client certificate to authenticate with", 0 },
    { "key", KEY_CERT_KEY, "FILE", 0, "the key of the client certificate", 0 },
    { "name", KEY_NAME, "NAME", 0, "schedule pods with this schedulerName (default: muster)", 0 },
    { "listen", 'l', "ADDRESS:PORT", 0, "answer probes, metrics and reasons here (default: :9096)", 0 },
    { "lease", KEY_LEASE, "NAME", 0, "the Lease that the leader holds (default: muster-k8s)", 0 },
    { "lease-namespace", KEY_LEASE_NS, "NAMESPACE", 0, "its namespace (default: kube-system)", 0 },
    { "lease-duration", KEY_DURATION, "SECONDS", 0, "how long it holds without being renewed (default: 15)", 0 },
    { "identity", KEY_IDENTITY, "TEXT", 0, "who this process is, in the Lease (default: host name and process id)", 0 },
    { "no-lease", KEY_NO_LEASE, NULL, 0, "lead without a Lease; there must be no other replica", 0 },
    { "watch-seconds", KEY_STRETCH, "SECONDS", 0, "how long one watch lasts before it is asked for anew (default: 300)",
      0 },
    { "connections", KEY_PARALLEL, "N", 0, "connections to the API server at most (default: 64)", 0 },
    { "log", KEY_LOG, "LEVEL", 0, "err, warn, info or debug", 0 },
    { "check", KEY_CHECK, NULL, 0, "read the configuration, report what is wrong, and end", 0 },
    { 0 },
};

static int64_t number(const char *text, int64_t least, int64_t most, const char *what, struct argp_state *state)
{
    int64_t value;

    if (decimal_parse_i64(text, strlen(text), &value) < 0 || value < least || value > most)
        argp_error(state, "--%s: expected %lld to %lld, got '%s'", what, (long long)least, (long long)most, text);
    return value;
}

static error_t parse_more(int key, char *arg, struct argp_state *state)
{
    struct options *options = state->input;

    switch (key) {
    case KEY_DURATION:
        options->duration = number(arg, 1, 3600, "lease-duration", state);
        break;
    case KEY_STRETCH:
        options->stretch = number(arg, 1, 3600, "watch-seconds", state);
        break;
    case KEY_PARALLEL:
        options->parallel = number(arg, 8, 1024, "connections", state);
        break;
    case KEY_NO_LEASE:
        options->no_lease = true;
        break;
    case KEY_CHECK:
        options->check = true;
        break;
    case KEY_LOG:
        if (log_level_find(arg) < 0)
            argp_error(state, "--log: expected err, warn, info or debug");
        log_level_set((enum log_level)log_level_find(arg));
        break;
    case ARGP_KEY_ARG:
        argp_error(state, "unknown word '%s'", arg);
        break;
    default:
        return ARGP_ERR_UNKNOWN;
    }
    return 0;
}

static error_t parse(int key, char *arg, struct argp_state *state)
{
    struct options *options = state->input;
    const char **to = key == 'c'            ? &options->config
                      : key == KEY_SERVER   ? &options->server
                      : key == KEY_CA       ? &options->ca
                      : key == KEY_TOKEN    ? &options->token
                      : key == KEY_CERT     ? &options->cert
                      : key == KEY_CERT_KEY ? &options->cert_key
                      : key == KEY_NAME     ? &options->name
                      : key == 'l'          ? &options->listen
                      : key == KEY_LEASE    ? &options->lease
                      : key == KEY_LEASE_NS ? &options->lease_namespace
                      : key == KEY_IDENTITY ? &options->identity
                                            : NULL;

    if (!to)
        return parse_more(key, arg, state);
    *to = arg;
    return 0;
}

/* ---- the loop ---- */

enum { WATCHES_MAX = 10 };

struct program {
    const struct options *options;
    struct client *client;
    struct sched sched;
    struct watch *watches[WATCHES_MAX];
    size_t watch_count;
    struct lease *lease;
    struct serve *serve;
    struct routes routes;
};

static volatile sig_atomic_t stopped;

static void on_signal(int number)
{
    (void)number;
    stopped = 1;
}

static void nothing(void *arg)
{
    (void)arg;
}

static int watches_open(struct program *program, struct error *err)
{
    const struct watch_kind kinds[] = {
        { "nodes", "/api/v1/nodes", sched_begin, sched_node, sched_nodes_synced, NULL, 0 },
        { "priorityclasses", "/apis/scheduling.k8s.io/v1/priorityclasses", nothing, sched_rank, nothing, NULL, 0 },
        { "podgroups", "/apis/scheduling.k8s.io/v1beta1/podgroups", nothing, sched_group, nothing, NULL, 0 },
        { "podgroups", "/apis/scheduling.k8s.io/v1alpha2/podgroups", nothing, sched_group, nothing, NULL, 0 },
        { "podgroups", "/apis/scheduling.x-k8s.io/v1alpha1/podgroups", nothing, sched_group, nothing, NULL, 0 },
        { "podgroups", "/apis/scheduling.volcano.sh/v1beta1/podgroups", nothing, sched_group, nothing, NULL, 0 },
        { "jobs", "/apis/batch/v1/jobs", nothing, sched_size, nothing, NULL, 0 },
        { "jobsets", "/apis/jobset.x-k8s.io/v1alpha2/jobsets", nothing, sched_size, nothing, NULL, 0 },
        { "pods", "/api/v1/pods", sched_begin, sched_pod, sched_pods_synced, NULL, 0 },
    };

    for (size_t i = 0; i < sizeof(kinds) / sizeof(kinds[0]); i++) {
        struct watch_kind kind = kinds[i];
        int r;

        kind.arg = &program->sched;
        kind.stretch = program->options->stretch * USEC_SEC;
        r = api_watch_new(program->client, &kind, &program->watches[i], err);
        if (r < 0)
            return r;
        program->watch_count++;
    }
    return 0;
}

static bool all_listed(const struct program *program)
{
    for (size_t i = 0; i < program->watch_count; i++)
        if (!api_watch_synced(program->watches[i]))
            return false;
    return true;
}

/* False: it led and does so no more. Whoever takes over begins from the pods, and so does this process when it is
 * started again. */
static bool lead(struct program *program, usec_t now)
{
    struct error err = { 0 };
    bool leads = program->options->no_lease || lease_held(program->lease, now);

    program->routes.ready = all_listed(program);
    if (program->sched.leading && !leads)
        return false;
    if (!program->sched.leading && leads && program->routes.ready) {
        log_info("schedules", "scheduler", program->sched.name, "pods", LOG_I64((int64_t)program->sched.pods.count));
        (void)sched_lead(&program->sched, &err);
    }
    program->routes.leading = program->sched.leading;
    return true;
}

static int run_loop(struct program *program)
{
    struct client_fd fds[SERVE_CONNS_MAX + 1];

    while (!stopped) {
        usec_t now = clock_now(), next = now + USEC_SEC, at;
        size_t count;

        for (size_t i = 0; i < program->watch_count; i++) {
            at = api_watch_turn(program->watches[i], now);
            next = at < next ? at : next;
        }
        if (program->lease) {
            at = lease_turn(program->lease, now);
            next = at < next ? at : next;
        }
        if (!lead(program, now)) {
            log_err("leads no more", "lease", program->options->lease);
            return 3;
        }
        at = sched_turn(&program->sched, now);
        next = at < next ? at : next;
        count = serve_fds(program->serve, fds);
        client_turn(program->client, fds, count, next > now ? next - now : 0);
        serve_turn(program->serve, fds, count);
    }
    if (program->lease) {
        lease_release(program->lease);
        for (int i = 0; i < 20; i++)
            client_turn(program->client, NULL, 0, USEC_SEC / 50);
    }
    return 0;
}

static void program_done(struct program *program)
{
    serve_free(program->serve);
    client_free(program->client);
    for (size_t i = 0; i < program->watch_count; i++)
        api_watch_free(program->watches[i]);
    lease_free(program->lease);
    k8s_conf_done(&program->sched.conf);
    sched_done(&program->sched);
}

static int program_open(struct program *program, struct k8s_conf *conf, struct error *err)
{
    const struct options *options = program->options;
    struct client_config client = { options->server, options->ca,       options->token,
                                    options->cert,   options->cert_key, (int)options->parallel };
    struct lease_config lease = { options->lease_namespace, options->lease, options->identity,
                                  options->duration * USEC_SEC };
    int r = client_new(&client, &program->client, err);

    if (r < 0) {
        k8s_conf_done(conf);
        return r;
    }
    r = sched_init(&program->sched, program->client, conf, err);
    program->sched.name = options->name;
    program->routes.sched = &program->sched;
    if (r == 0)
        r = watches_open(program, err);
    if (r == 0 && !options->no_lease)
        r = lease_new(program->client, &lease, &program->lease, err);
    if (r == 0)
        r = serve_new(options->listen, routes_answer, &program->routes, &program->serve, err);
    return r;
}

/* Where a pod finds the API server and who it is. */
static int inside(struct options *options, char *server, size_t size, struct error *err)
{
    const char *host = getenv("KUBERNETES_SERVICE_HOST"), *port = getenv("KUBERNETES_SERVICE_PORT");

    if (options->server)
        return 0;
    if (!host || !port)
        return error_set(err, -EINVAL, "expected --server: this is no pod of Kubernetes");
    (void)snprintf(server, size, strchr(host, ':') ? "https://[%s]:%s" : "https://%s:%s", host, port);
    options->server = server;
    options->ca = options->ca ? options->ca : ACCOUNT "/ca.crt";
    options->token = options->token ? options->token : ACCOUNT "/token";
    return 0;
}

static int run(struct options *options)
{
    struct program *program = mem_zalloc(1, sizeof(*program));
    struct k8s_conf *conf = mem_zalloc(1, sizeof(*conf));
    struct error err = { 0 };
    char server[300];
    int r = program && conf ? k8s_conf_read(options->config, conf, &err) : -ENOMEM, status = 1;

    if (r == 0 && options->check) {
        k8s_conf_done(conf);
        status = 0;
    } else if (r == 0) {
        r = inside(options, server, sizeof(server), &err);
        program->options = options;
        if (r < 0)
            k8s_conf_done(conf);
        else
            r = program_open(program, conf, &err);
        if (r == 0) {
            log_info("listening", "address", serve_address(program->serve), "server", options->server);
            status = run_loop(program);
        }
        if (program->client)
            program_done(program);
    }
    if (r < 0)
        (void)fprintf(stderr, "muster-k8s: %s\n", err.text);
    mem_free(program);
    mem_free(conf);
    return status;
}

int main(int argc, char **argv)
{
    static const struct argp argp = {
        options_known,
        parse,
        NULL,
        "muster-k8s schedules pods of Kubernetes in gangs, for virtual clusters that are guaranteed GPUs.\v"
        "muster-k8s why NAMESPACE/POD tells why a pod waits, and muster-k8s queue lists all that wait; both take "
        "--url URL.",
        NULL,
        NULL,
        NULL
    };
    struct options options = { .name = "muster",
                               .lease = "muster-k8s",
                               .lease_namespace = "kube-system",
                               .listen = ":9096",
                               .duration = 15,
                               .stretch = 300,
                               .parallel = 64 };
    char identity[320], host[256] = "";

    if (ask_wanted(argc, argv))
        return ask_run(argc, argv);
    json_pool_use();
    (void)gethostname(host, sizeof(host) - 1);
    (void)snprintf(identity, sizeof(identity), "%s_%d", host, (int)getpid());
    options.identity = identity;
    if (argp_parse(&argp, argc, argv, 0, NULL, &options) != 0)
        return 2;
    (void)signal(SIGTERM, on_signal);
    (void)signal(SIGINT, on_signal);
    (void)signal(SIGPIPE, SIG_IGN);
    return run(&options);
}
