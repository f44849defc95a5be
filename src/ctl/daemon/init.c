/* SPDX-License-Identifier: Apache-2.0 */
/* init.c - `musterd init`: an authority, the controller's certificate, a configuration, an admin's token and one to
 * join the first node. Never overwrites anything. */
#include <dirent.h>
#include <errno.h>
#include <pwd.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/alloc.h"
#include "ctl/daemon/daemon.h"
#include "ctl/insight/forecast.h"
#include "io/file.h"
#include "io/log.h"
#include "io/pki.h"
#include "io/seal.h"

enum { CA_DAYS = 7300, CERT_DAYS = 3650, JOIN_HOURS = 24 };

struct making {
    const struct init_options *options;
    char host[256]; /* first of the hosts */
    char ca[4096], ca_key[4096], cert[4096], key[4096], conf[4096], token[4096], secrets_key[4096];
    char pin[PKI_FINGERPRINT_MAX];
    char admin_text[256], join_text[256];
    struct server server;
    struct conf settings;
    int left, failed;
};

/* The daemon does not run as root where there is a user for it. */
static void owner_give(const char *path)
{
    struct passwd entry, *found = NULL;
    char text[4096];

    if (geteuid() == 0 && getpwnam_r("muster", &entry, text, sizeof(text), &found) == 0 && found &&
        chown(path, found->pw_uid, found->pw_gid) < 0)
        log_warn("cannot give it to user muster", "path", path);
}

static int file_new(const char *path, const char *text, mode_t mode, struct error *err)
{
    mode_t old = umask(0777 & ~mode);
    int r = file_write_atomic(path, text, strlen(text), err);

    (void)umask(old);
    if (r == 0 && chmod(path, mode) < 0)
        r = error_set(err, -errno, "%s: %s", path, strerror(errno));
    if (r == 0)
        owner_give(path);
    return r;
}

/* With the folders above it. */
static int folder_make(const char *path, mode_t mode, struct error *err)
{
    char part[4096];

    for (const char *at = path + 1; (at = strchr(at, '/')); at++) {
        (void)snprintf(part, sizeof(part), "%.*s", (int)(at - path), path);
        if (mkdir(part, 0755) < 0 && errno != EEXIST)
            return error_set(err, -errno, "%s: %s", part, strerror(errno));
    }
    if (mkdir(path, mode) < 0 && errno != EEXIST)
        return error_set(err, -errno, "%s: %s", path, strerror(errno));
    return 0;
}

static int paths_fill(struct making *making, struct error *err)
{
    const char *dir = making->options->dir;
    const char *names[] = {
        "ca.crt", "ca.key", "server.crt", "server.key", "muster.yaml", "admin.token", "secrets.key"
    };
    char *to[] = { making->ca,   making->ca_key, making->cert,       making->key,
                   making->conf, making->token,  making->secrets_key };

    if (strlen(dir) > 3000 || strlen(making->options->state) > 3000)
        return error_set(err, -ENAMETOOLONG, "the name of the folder is too long");
    for (size_t i = 0; i < sizeof(to) / sizeof(to[0]); i++) {
        (void)snprintf(to[i], 4096, "%s/%s", dir, names[i]);
        if (access(to[i], F_OK) == 0)
            return error_set(err, -EEXIST, "%s is there already; nothing was changed", to[i]);
    }
    return folder_make(dir, 0755, err);
}

/* "a,10.0.0.1" to "DNS:a,IP:10.0.0.1", with this machine's own names behind. */
static void alt_fill(struct making *making, char *out, size_t size)
{
    char own[256] = "localhost", hosts[1024];
    size_t n = 0;

    (void)gethostname(own, sizeof(own) - 1);
    (void)snprintf(hosts, sizeof(hosts), "%s,localhost,127.0.0.1,::1",
                   making->options->hosts ? making->options->hosts : own);
    (void)snprintf(making->host, sizeof(making->host), "%.*s", (int)strcspn(hosts, ","), hosts);
    for (char *save = NULL, *word = strtok_r(hosts, ",", &save); word; word = strtok_r(NULL, ",", &save)) {
        bool address = strspn(word, "0123456789.") == strlen(word) || strchr(word, ':') != NULL;

        n += (size_t)snprintf(out + n, n < size ? size - n : 0, "%s%s:%s", n ? "," : "", address ? "IP" : "DNS", word);
    }
}

static int keys_make(struct making *making, struct error *err)
{
    CLEANUP_BYTES struct bytes ca_key = { 0 }, ca = { 0 }, key = { 0 }, request = { 0 }, cert = { 0 };
    char alt[2048] = "", name[300];
    struct pki_sign how = { .alt = alt, .server = true, .days = CERT_DAYS };
    struct buf chain = BUF_INIT((size_t)1 << 20);
    int r;

    alt_fill(making, alt, sizeof(alt));
    (void)snprintf(name, sizeof(name), "muster %.200s", making->options->cluster);
    r = pki_key(&ca_key, err);
    if (r == 0)
        r = pki_authority(ca_key.data, name, CA_DAYS, &ca, err);
    if (r == 0)
        r = pki_key(&key, err);
    if (r == 0)
        r = pki_request(key.data, making->host, &request, err);
    if (r == 0) {
        how.ca_pem = ca.data;
        how.ca_key_pem = ca_key.data;
        how.name = making->host;
        r = pki_sign(request.data, &how, &cert, err);
    }
    if (r == 0)
        r = pki_fingerprint(ca.data, making->pin, err);
    if (r == 0) {
        buf_put(&chain, cert.data, cert.size);
        buf_put(&chain, ca.data, ca.size);
        buf_char(&chain, '\0');
        r = chain.error ? error_set(err, -ENOMEM, "out of memory") : file_new(making->cert, chain.data, 0644, err);
    }
    buf_done(&chain);
    if (r == 0)
        r = file_new(making->ca, ca.data, 0644, err);
    if (r == 0)
        r = file_new(making->ca_key, ca_key.data, 0600, err);
    if (r == 0)
        r = file_new(making->key, key.data, 0600, err);
    if (r == 0)
        r = seal_keys_make(making->secrets_key, err);
    if (r == 0)
        owner_give(making->secrets_key);
    return r;
}

static int conf_make(struct making *making, struct error *err)
{
    struct buf text = BUF_INIT((size_t)1 << 16);
    int r;

    buf_printf(&text,
               "# muster.yaml(5)\n"
               "cluster: %s\n"
               "state: %s\n"
               "listen: [\":7717\", /run/muster/musterd.sock]\n"
               "tls: {cert: %s, key: %s, ca: %s, ca_key: %s}\n"
               "auth: {admins: [root], anonymous: none, privacy: names}\n"
               "policy: fifo-skip\n"
               "secrets_key: %s\n"
               "# vcs:\n"
               "#   nlp: {guarantee: {H100: 32}, policy: srsf}\n",
               making->options->cluster, making->options->state, making->cert, making->key, making->ca, making->ca_key,
               making->secrets_key);
    buf_char(&text, '\0');
    r = text.error ? error_set(err, -ENOMEM, "out of memory") : file_new(making->conf, text.data, 0644, err);
    buf_done(&text);
    return r;
}

static void on_kept(void *arg, const struct entry_result *result)
{
    struct making *making = arg;

    if (result->code < 0) {
        fprintf(stderr, "musterd: error: %s\n", result->text.text);
        making->failed = 1;
    }
    if (--making->left == 0)
        loop_stop(making->server.loop);
}

static int token_keep(struct making *making, const char *role, usec_t expires, char *text, struct error *err)
{
    struct entry_result refused = { 0 };
    char id[24], hash[65];
    int r = token_make(id, sizeof(id), text, 256, hash);

    if (r < 0)
        return error_set(err, r, "no random numbers");
    making->left++;
    r = batcher_offer(making->server.batcher,
                      &(struct entry){ .kind = ENTRY_TOKEN,
                                       .token = { .id = entry_text(id),
                                                  .hash = entry_text(hash),
                                                  .user = entry_text("root"),
                                                  .role = entry_text(role),
                                                  .scope = entry_text(""),
                                                  .expires = expires,
                                                  .nodes = strcmp(role, "join") == 0 ? making->options->nodes : 0 } },
                      on_kept, making, &refused);
    if (r < 0)
        return error_set(err, r, "%s", refused.text.text);
    return 0;
}

static void state_give(const char *folder)
{
    DIR *dir = opendir(folder);
    struct dirent *entry;
    char path[4096 + 300];

    owner_give(folder);
    while (dir && (entry = readdir(dir)) != NULL)
        if (entry->d_name[0] != '.') {
            (void)snprintf(path, sizeof(path), "%s/%s", folder, entry->d_name);
            owner_give(path);
        }
    if (dir)
        (void)closedir(dir);
}

/* The tokens go into the store as any change does. */
static int tokens_make(struct making *making, struct error *err)
{
    struct server *server = &making->server;
    char file[320];
    int r;

    conf_init(&making->settings);
    making->settings.cluster = mem_strdup(making->options->cluster);
    making->settings.state = mem_strdup(making->options->state);
    making->settings.policy = mem_strdup("fifo-skip");
    server->conf = &making->settings;
    r = folder_make(making->options->state, 0700, err);
    if (r == 0)
        r = loop_new(&server->loop, err);
    if (r == 0 && host_turns(server) < 0)
        r = error_set(err, -ENOMEM, "out of memory");
    if (r == 0)
        r = batcher_open(server, err);
    if (r == 0)
        r = token_keep(making, "admin", 0, making->admin_text, err);
    if (r == 0)
        r = token_keep(making, "join", clock_now() + JOIN_HOURS * USEC_HOUR, making->join_text, err);
    if (r == 0)
        loop_run(server->loop);
    loop_timer_free(server->wake);
    batcher_free(take(server->batcher));
    loop_free(server->loop);
    store_close(server->store);
    conf_done(&making->settings);
    state_give(making->options->state);
    if (r < 0 || making->failed)
        return r < 0 ? r : error_set(err, -EIO, "the tokens were not kept");
    (void)snprintf(file, sizeof(file), "%s\n", making->admin_text);
    return file_new(making->token, file, 0600, err);
}

int init_run(const struct init_options *options)
{
    static struct making making;
    struct error err = { 0 };
    int r;

    making.options = options;
    log_level_set(LOGLEVEL_WARN);
    r = paths_fill(&making, &err);
    if (r == 0)
        r = keys_make(&making, &err);
    if (r == 0)
        r = conf_make(&making, &err);
    if (r == 0)
        r = tokens_make(&making, &err);
    if (r < 0) {
        fprintf(stderr, "musterd: error: %s\n", err.text);
        return r == -EEXIST ? 5 : 1;
    }
    printf("Made %s, an authority, a certificate and %s.\n\n", making.conf, making.token);
    printf("Start the controller:   systemctl enable --now musterd   (or: musterd --config %s)\n", making.conf);
    printf("On each of %d nodes, within %d hours (`muster token new --join` lets more in):\n", options->nodes,
           JOIN_HOURS);
    printf("    muster-agent join https://%s:7717 %s.%s\n", making.host, making.join_text, making.pin);
    printf("For yourself:           export MUSTER_URL=https://%s:7717 MUSTER_TOKEN=$(cat %s) MUSTER_CACERT=%s\n",
           making.host, making.token, making.ca);
    explicit_bzero(&making, sizeof(making));
    return 0;
}
