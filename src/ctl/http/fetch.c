/* SPDX-License-Identifier: Apache-2.0 */
/* fetch.c - see fetch.h. */
#include "ctl/http/fetch.h"

#define CURL_DISABLE_TYPECHECK
#include <curl/curl.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/buf.h"
#include "io/child.h"
#include "io/lib.h"

enum { FETCH_MS = 8000, CONNECT_MS = 5000 };

#define CURL_FILE "libcurl.so.4"
#define CURL_CALLS(X)                                                                                                  \
    X(curl_easy_init)                                                                                                  \
    X(curl_easy_setopt)                                                                                                \
    X(curl_easy_getinfo)                                                                                               \
    X(curl_easy_perform)                                                                                               \
    X(curl_easy_strerror)                                                                                              \
    X(curl_slist_append)                                                                                               \
    X(curl_slist_free_all)                                                                                             \
    X(curl_easy_cleanup)                                                                                               \
    X(curl_global_init)

static struct {
    CURL_CALLS(LIB_FIELD)
} curl;
static const char *const curl_names[] = { CURL_CALLS(LIB_NAME) };

static size_t on_data(const char *data, size_t size, size_t count, void *arg)
{
    struct buf *out = arg;

    buf_put(out, data, size * count);
    return out->error ? 0 : size * count;
}

static int fetch(const char *url, const char *form, const char *ca)
{
    struct buf out = BUF_INIT(FETCH_BYTES_MAX);
    CURL *easy = curl.curl_global_init(CURL_GLOBAL_DEFAULT) == CURLE_OK ? curl.curl_easy_init() : NULL;
    struct curl_slist *heads = easy ? curl.curl_slist_append(NULL, "Accept: application/json") : NULL;
    CURLcode code = CURLE_FAILED_INIT;
    long status = 0;

    if (heads) {
        (void)curl.curl_easy_setopt(easy, CURLOPT_URL, url);
        (void)curl.curl_easy_setopt(easy, CURLOPT_PROTOCOLS_STR, strncmp(url, "http:", 5) == 0 ? "http" : "https");
        (void)curl.curl_easy_setopt(easy, CURLOPT_NOSIGNAL, 1L);
        (void)curl.curl_easy_setopt(easy, CURLOPT_TIMEOUT_MS, (long)FETCH_MS);
        (void)curl.curl_easy_setopt(easy, CURLOPT_CONNECTTIMEOUT_MS, (long)CONNECT_MS);
        (void)curl.curl_easy_setopt(easy, CURLOPT_HTTPHEADER, heads);
        (void)curl.curl_easy_setopt(easy, CURLOPT_WRITEFUNCTION, on_data);
        (void)curl.curl_easy_setopt(easy, CURLOPT_WRITEDATA, &out);
        if (*form)
            (void)curl.curl_easy_setopt(easy, CURLOPT_POSTFIELDS, form);
        if (ca && *ca)
            (void)curl.curl_easy_setopt(easy, CURLOPT_CAINFO, ca);
        code = curl.curl_easy_perform(easy);
    }
    if (code != CURLE_OK) {
        (void)fprintf(stderr, "%.300s: %s\n", url, curl.curl_easy_strerror(code));
    } else {
        (void)curl.curl_easy_getinfo(easy, CURLINFO_RESPONSE_CODE, &status);
        (void)printf("%ld\n", status);
        (void)fwrite(out.data ? out.data : "", 1, out.size, stdout);
    }
    curl.curl_slist_free_all(heads);
    if (easy)
        curl.curl_easy_cleanup(easy);
    buf_done(&out);
    return code == CURLE_OK && fflush(stdout) == 0 ? 0 : 1;
}

bool fetch_url_good(const char *text)
{
    static const char *const here[] = { "http://127.0.0.1", "http://localhost", "http://[::1]" };

    if (strpbrk(text, " \t\r\n\"\\<>"))
        return false;
    if (strncmp(text, "https://", 8) == 0)
        return text[8] != '\0' && text[8] != '/';
    for (size_t i = 0; i < sizeof(here) / sizeof(here[0]); i++) {
        size_t length = strlen(here[i]);

        if (strncmp(text, here[i], length) == 0 && strchr(":/", text[length]))
            return true;
    }
    return false;
}

int fetch_run(const char *ca)
{
    char text[CHILD_IN_MAX + 1] = "", *form;
    struct error err = { 0 };
    size_t size = 0;
    ssize_t n;

    while (size < sizeof(text) - 1 && (n = read(STDIN_FILENO, text + size, sizeof(text) - 1 - size)) > 0)
        size += (size_t)n;
    form = strchr(text, '\n');
    if (!form) {
        (void)fprintf(stderr, "expected URL and form\n");
        return 2;
    }
    *form++ = '\0';
    if (!fetch_url_good(text)) {
        (void)fprintf(stderr, "%.200s: only https is asked\n", text);
        return 2;
    }
    if (lib_open(CURL_FILE, curl_names, LIB_COUNT(curl_names), &curl, &err) < 0) {
        (void)fprintf(stderr, "%s\n", err.text);
        return 1;
    }
    return fetch(text, form, ca);
}
