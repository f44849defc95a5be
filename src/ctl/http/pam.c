/* SPDX-License-Identifier: Apache-2.0 */
/* pam.c - see pam.h. libpam is opened when it is needed: what is called of it is declared here, as its manual pages
 * have it. */
#include "ctl/http/pam.h"

#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/alloc.h"
#include "io/lib.h"

#define PAM_FILE "libpam.so.0"

/* NOLINTBEGIN(readability-identifier-naming) */
typedef struct pam_handle pam_handle_t;
struct pam_message {
    int msg_style;
    const char *msg;
};
struct pam_response {
    char *resp;
    int resp_retcode;
};
struct pam_conv {
    int (*conv)(int count, const struct pam_message **messages, struct pam_response **responses, void *arg);
    void *appdata_ptr;
};
int pam_start(const char *service, const char *user, const struct pam_conv *conv, pam_handle_t **handle);
int pam_start_confdir(const char *service, const char *user, const struct pam_conv *conv, const char *folder,
                      pam_handle_t **handle);
int pam_authenticate(pam_handle_t *handle, int flags);
int pam_acct_mgmt(pam_handle_t *handle, int flags);
int pam_end(pam_handle_t *handle, int status);
const char *pam_strerror(pam_handle_t *handle, int status);
/* NOLINTEND(readability-identifier-naming) */

enum {
    PAM_OF_SUCCESS = 0,
    PAM_OF_BUF_ERR = 5,
    PAM_OF_AUTH_ERR = 7,
    PAM_OF_USER_UNKNOWN = 10,
    PAM_OF_MAXTRIES = 11,
    PAM_OF_NEW_AUTHTOK = 12,
    PAM_OF_ACCT_EXPIRED = 13,
    PAM_OF_PERM_DENIED = 6,
    PAM_ASK_HIDDEN = 1,
    PAM_ASK = 2,
};

#define PAM_CALLS(X)                                                                                                   \
    X(pam_start)                                                                                                       \
    X(pam_start_confdir)                                                                                               \
    X(pam_authenticate)                                                                                                \
    X(pam_acct_mgmt)                                                                                                   \
    X(pam_end)                                                                                                         \
    X(pam_strerror)

static struct {
    PAM_CALLS(LIB_FIELD)
} pam;
static const char *const pam_names[] = { PAM_CALLS(LIB_NAME) };

/* Every hidden question is answered with the password, every other with nothing. */
static int on_talk(int count, const struct pam_message **messages, struct pam_response **responses, void *arg)
{
    const char *password = arg;
    struct pam_response *list = count > 0 ? mem_zalloc((size_t)count, sizeof(*list)) : NULL;

    if (!list)
        return PAM_OF_BUF_ERR;
    for (int i = 0; i < count; i++)
        if (messages[i]->msg_style == PAM_ASK_HIDDEN || messages[i]->msg_style == PAM_ASK)
            list[i].resp = mem_strdup(messages[i]->msg_style == PAM_ASK_HIDDEN ? password : "");
    *responses = list; /* the library frees them, with the C library's free() as ours is */
    return PAM_OF_SUCCESS;
}

static bool refused(int status)
{
    return status == PAM_OF_AUTH_ERR || status == PAM_OF_USER_UNKNOWN || status == PAM_OF_MAXTRIES ||
           status == PAM_OF_ACCT_EXPIRED || status == PAM_OF_PERM_DENIED || status == PAM_OF_NEW_AUTHTOK;
}

static int check(const char *service, const char *user, char *password)
{
    struct pam_conv conv = { .conv = on_talk, .appdata_ptr = password };
    const char *name = strrchr(service, '/');
    pam_handle_t *handle = NULL;
    char folder[4096];
    int r;

    if (name) {
        (void)snprintf(folder, sizeof(folder), "%.*s", (int)(name - service), service);
        r = pam.pam_start_confdir(name + 1, user, &conv, folder, &handle);
    } else {
        r = pam.pam_start(service, user, &conv, &handle);
    }
    if (r == PAM_OF_SUCCESS)
        r = pam.pam_authenticate(handle, 0);
    if (r == PAM_OF_SUCCESS)
        r = pam.pam_acct_mgmt(handle, 0);
    if (r != PAM_OF_SUCCESS)
        (void)fprintf(stderr, "%s\n", handle ? pam.pam_strerror(handle, r) : "PAM cannot be used");
    if (handle)
        (void)pam.pam_end(handle, r);
    return r == PAM_OF_SUCCESS ? PAM_CHECK_GOOD : refused(r) ? PAM_CHECK_WRONG : PAM_CHECK_BROKEN;
}

int pam_check_run(const char *service)
{
    char text[PAM_CHECK_BYTES] = "", *password;
    struct error err = { 0 };
    size_t size = 0;
    ssize_t n;
    int r;

    while (size < sizeof(text) - 1 && (n = read(STDIN_FILENO, text + size, sizeof(text) - 1 - size)) > 0)
        size += (size_t)n;
    password = strchr(text, '\n');
    if (!password || password == text)
        return PAM_CHECK_BROKEN;
    *password++ = '\0';
    if (lib_open(PAM_FILE, pam_names, LIB_COUNT(pam_names), &pam, &err) < 0) {
        (void)fprintf(stderr, "%s\n", err.text);
        return PAM_CHECK_BROKEN;
    }
    r = check(service, text, password);
    explicit_bzero(text, sizeof(text));
    return r;
}
