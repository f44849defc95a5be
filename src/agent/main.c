/* SPDX-License-Identifier: Apache-2.0 */
/* main.c - muster-agent: the program of a node. */
#include <errno.h>
#include <getopt.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "agent/agent_file.h"
#include "agent/embed.h"
#include "agent/gpu_runtime.h"
#include "agent/join.h"
#include "base/buf.h"
#include "io/file.h"
#include "io/log.h"

static const char usage_text[] =
    "usage: muster-agent [--url URL] [--node NAME] [--state DIR] [FLAGS]\n"
    "       muster-agent join URL TOKEN|--token-file FILE [--node NAME] [--state DIR]\n"
    "\n"
    "Runs the jobs of one node and keeps a connection to the controller at URL.\n"
    "\n"
    "  --url URL           https://HOST:7717, or http:// on the loopback\n"
    "  --node NAME         name of this node (default: the host's name)\n"
    "  --state DIR         journal, tasks, output, certificate (default: /var/lib/muster-agent)\n"
    "  --config FILE       /etc/muster/agent.yaml unless told; flags win\n"
    "  --token-file FILE   of join: where the token is; - is standard input, and no list of processes shows it\n"
    "  --address HOST      how other nodes reach this one (default: of the connection)\n"
    "  --label K=V         a label of the node; may be repeated\n"
    "  --fake COUNT:TYPE   emulated GPUs, such as 8:H100\n"
    "  --cgroup DIR        parent of the tasks' control groups; 'none': no groups\n"
    "  --private-tmp on|off  a /tmp of its own for each task (default: on as root with real GPUs)\n"
    "  --gpu-runtime WHICH shared, all or off: which jobs on GPUs run under the GPU runtime (default: shared)\n"
    "  --log-max BYTES     output kept of a task and stream (default: 64 MiB)\n"
    "  --allow-root        run tasks of root\n"
    "  --bare-images       with --fake: jobs that name an image run without it, and are told\n"
    "  --reboot COMMAND    what `muster node reboot` runs here (default: systemctl reboot, as root with real GPUs)\n"
    "  --no-sync           reports are not forced to the disk before they are sent\n"
    "  --log-level LEVEL   err warn info debug\n"
    "  -h, --help          this text\n"
    "      --version       version and licence\n";

enum {
    O_URL = 256,
    O_NODE,
    O_STATE,
    O_CONFIG,
    O_ADDRESS,
    O_LABEL,
    O_FAKE,
    O_CGROUP,
    O_TMP,
    O_RUNTIME,
    O_LOGMAX,
    O_ROOT,
    O_BARE,
    O_NOSYNC,
    O_REBOOT,
    O_LEVEL,
    O_TOKEN,
    O_VERSION
};

static const struct option options[] = {
    { "url", required_argument, NULL, O_URL },
    { "node", required_argument, NULL, O_NODE },
    { "state", required_argument, NULL, O_STATE },
    { "config", required_argument, NULL, O_CONFIG },
    { "address", required_argument, NULL, O_ADDRESS },
    { "label", required_argument, NULL, O_LABEL },
    { "fake", required_argument, NULL, O_FAKE },
    { "cgroup", required_argument, NULL, O_CGROUP },
    { "private-tmp", required_argument, NULL, O_TMP },
    { "gpu-runtime", required_argument, NULL, O_RUNTIME },
    { "log-max", required_argument, NULL, O_LOGMAX },
    { "allow-root", no_argument, NULL, O_ROOT },
    { "bare-images", no_argument, NULL, O_BARE },
    { "no-sync", no_argument, NULL, O_NOSYNC },
    { "log-level", required_argument, NULL, O_LEVEL },
    { "token-file", required_argument, NULL, O_TOKEN },
    { "help", no_argument, NULL, 'h' },
    { "version", no_argument, NULL, O_VERSION },
    { "reboot", required_argument, NULL, O_REBOOT },
    { 0 },
};

enum { LEAST_UID = 1000 };

struct flags {
    struct agent_config config;
    struct agent_file file; /* texts of the configuration file */
    const char *file_path, *token_path;
    char labels[1024], host[256], url[512];
};

static int usage_error(const char *words, const char *value)
{
    (void)fprintf(stderr, "muster-agent: error: %s%s%s\nhint: muster-agent --help\n", words, value ? ": " : "",
                  value ? value : "");
    return 2;
}

static int label_add(struct flags *flags, const char *label)
{
    size_t length = strlen(flags->labels);

    if (!strchr(label, '=') || strchr(label, ',') || length + strlen(label) + 2 > sizeof(flags->labels))
        return usage_error("--label: expected KEY=VALUE without commas", label);
    (void)snprintf(flags->labels + length, sizeof(flags->labels) - length, "%s%s", length ? "," : "", label);
    flags->config.labels = flags->labels;
    return -1;
}

static int log_max_take(struct agent_config *config, const char *value)
{
    char *end;

    config->log_max = strtoull(value, &end, 10);
    return *end || config->log_max == 0 ? usage_error("--log-max: expected a number of bytes", value) : -1;
}

/* -1: go on; else the exit status. */
static int flag_take(struct flags *flags, int option, const char *value)
{
    struct agent_config *c = &flags->config;

    switch (option) {
    case O_URL:
        c->url = value;
        break;
    case O_NODE:
        c->node = value;
        break;
    case O_STATE:
        c->state = value;
        break;
    case O_CONFIG:
        flags->file_path = value;
        break;
    case O_TOKEN:
        flags->token_path = value;
        break;
    case O_ADDRESS:
        c->address = value;
        break;
    case O_LABEL:
        return label_add(flags, value);
    case O_FAKE:
        c->fake = value;
        break;
    case O_CGROUP:
        c->cgroup = strcmp(value, "none") == 0 ? "" : value;
        break;
    case O_TMP:
        if (strcmp(value, "on") != 0 && strcmp(value, "off") != 0)
            return usage_error("--private-tmp: expected on or off", value);
        c->private_tmp = strcmp(value, "on") == 0;
        break;
    case O_RUNTIME:
        c->gpu_runtime = gpu_runtime_find(value);
        if (c->gpu_runtime < 0)
            return usage_error("--gpu-runtime: expected shared, all or off", value);
        break;
    case O_LOGMAX:
        return log_max_take(c, value);
    case O_ROOT:
        c->allow_root = true;
        break;
    case O_BARE:
        c->bare_images = true;
        break;
    case O_NOSYNC:
        c->durable = false;
        break;
    case O_REBOOT:
        c->reboot = value;
        break;
    case O_LEVEL:
        if (log_level_find(value) < 0)
            return usage_error("--log-level: expected err, warn, info or debug", value);
        log_level_set((enum log_level)log_level_find(value));
        break;
    case 'h':
        (void)fputs(usage_text, stdout);
        return 0;
    case O_VERSION:
        (void)puts("muster-agent " MUSTER_VERSION "\nLicence: Apache-2.0");
        return 0;
    case ':':
        return usage_error("this flag needs a value", value);
    default:
        return usage_error("no such flag", value);
    }
    return -1;
}

/* What joining does not look at is not for it: it would be forgotten silently. */
static bool join_takes(int option)
{
    return option == O_NODE || option == O_STATE || option == O_CONFIG || option == O_LEVEL || option == O_TOKEN;
}

/* systemd is told when we are up; without it nobody is. */
static void notify(const char *text)
{
    const char *path = getenv("NOTIFY_SOCKET"); /* NOLINT(concurrency-mt-unsafe): before any thread */
    struct sockaddr_un address = { .sun_family = AF_UNIX };
    int fd;

    if (!path || strlen(path) >= sizeof(address.sun_path))
        return;
    memcpy(address.sun_path, path, strlen(path));
    if (address.sun_path[0] == '@')
        address.sun_path[0] = '\0';
    fd = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    if (fd < 0)
        return;
    (void)sendto(fd, text, strlen(text), MSG_NOSIGNAL, (const struct sockaddr *)&address,
                 (socklen_t)(offsetof(struct sockaddr_un, sun_path) + strlen(path)));
    close(fd);
}

struct run {
    struct loop *loop;
    struct agents *agents;
    bool stopping;
};

static void on_stopped(void *arg)
{
    struct run *run = arg;

    loop_stop(run->loop);
}

static void on_signal(void *arg)
{
    struct run *run = arg;

    if (run->stopping)
        return;
    run->stopping = true;
    notify("STOPPING=1");
    agents_stop(run->agents, false, on_stopped, run);
}

static int agent_run(const struct agent_config *config)
{
    struct run run = { 0 };
    struct error err = { 0 };
    int r;

    if (config->bare_images && !config->fake)
        return usage_error("--bare-images goes with --fake", NULL);
    r = loop_new(&run.loop, &err);
    if (r == 0)
        r = agents_new(run.loop, &run.agents, &err);
    if (r == 0)
        r = agents_add(run.agents, config, &err);
    if (r == 0)
        r = loop_signal(run.loop, SIGTERM, on_signal, &run);
    if (r == 0)
        r = loop_signal(run.loop, SIGINT, on_signal, &run);
    if (r == 0) {
        notify("READY=1");
        loop_run(run.loop);
    } else {
        (void)fprintf(stderr, "muster-agent: error: %s\n", err.text);
    }
    agents_free(run.agents);
    loop_free(run.loop);
    return r < 0 ? 1 : 0;
}

enum { TOKEN_MAX = 4096 };

static int join_run(struct flags *flags, int argc, char **argv)
{
    CLEANUP_BYTES struct bytes token = { 0 };
    struct error err = { 0 };
    int r = 0;

    if (argc != (flags->token_path ? 1 : 2))
        return usage_error("join takes a URL, and a token or --token-file", NULL);
    if (flags->token_path)
        r = file_read(flags->token_path, TOKEN_MAX, &token, &err);
    if (r == 0 && token.data)
        token.data[strcspn(token.data, " \t\r\n")] = '\0';
    if (r == 0)
        r = join_cluster(argv[0], flags->token_path ? token.data : argv[1], flags->config.node, flags->config.state,
                         &err);
    if (r < 0) {
        (void)fprintf(stderr, "muster-agent: error: %s\n", err.text);
        return r == -EACCES ? 4 : r == -ECONNREFUSED || r == -ETIMEDOUT ? 7 : 1;
    }
    (void)printf("Joined as %s; start muster-agent now\n", flags->config.node);
    return 0;
}

int main(int argc, char **argv)
{
    struct flags flags = { .config = { .durable = true, .private_tmp = -1, .gpu_runtime = -1, .least_uid = -1 } };
    struct error err = { 0 };
    int option, status = agent_child(argc, argv);
    const char *not_joining = NULL;
    bool joining;

    if (status >= 0)
        return status;
    (void)signal(SIGPIPE, SIG_IGN);
    opterr = 0;
    for (int at = 0; (option = getopt_long(argc, argv, ":h", options, &at)) != -1;) {
        if (!not_joining && !join_takes(option))
            not_joining = options[at].name;
        status = flag_take(&flags, option, option == '?' || option == ':' ? argv[optind - 1] : optarg);
        if (status >= 0)
            return status;
    }
    if (agent_file_read(flags.file_path, &flags.file, &flags.config, &err) < 0)
        return usage_error(err.text, NULL);
    if (!flags.config.state)
        flags.config.state = "/var/lib/muster-agent";
    if (flags.config.least_uid < 0) /* not told: accounts of people, where GPUs are real */
        flags.config.least_uid = flags.config.fake && !flags.config.real_defaults ? 0 : LEAST_UID;
    if (flags.config.gpu_runtime < 0)
        flags.config.gpu_runtime = GPU_RUNTIME_SHARED;
    joining = optind < argc && strcmp(argv[optind], "join") == 0;
    if (!flags.config.node) {
        if (joining || join_node(flags.config.state, flags.host, sizeof(flags.host)) < 0)
            (void)gethostname(flags.host, sizeof(flags.host) - 1);
        flags.config.node = flags.host;
    }
    if (!joining && flags.token_path)
        return usage_error("--token-file is for join", NULL);
    if (joining && not_joining)
        return usage_error("join only takes --node and --state; this is for the start of the agent, or for its file",
                           not_joining);
    if (joining)
        return join_run(&flags, argc - optind - 1, argv + optind + 1);
    if (optind < argc)
        return usage_error("an argument that is not expected", argv[optind]);
    if (!flags.config.url && join_url(flags.config.state, flags.url, sizeof(flags.url)) == 0)
        flags.config.url = flags.url;
    if (!flags.config.url)
        return usage_error("no controller is named: --url, or muster-agent join first", NULL);
    if (!flags.config.reboot && !flags.config.fake && geteuid() == 0)
        flags.config.reboot = "systemctl reboot";
    return agent_run(&flags.config);
}
