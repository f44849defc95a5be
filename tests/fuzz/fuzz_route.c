/* SPDX-License-Identifier: Apache-2.0 */
/* Request targets: a path finds a route or a refusal, parameters lie inside it; queries are walked to their end. */
#include "ctl/daemon/server.h"
#include "fuzz.h"

static const char *const methods[] = { "GET", "POST", "PATCH", "DELETE", "PUT", "HEAD", "X" };

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    char *text = malloc(size + 1), *params[REQUEST_PARAMS_MAX] = { 0 }, *mark, allow[128];
    const char *at, *name, *value;
    size_t name_size, value_size, pairs = 0;
    int status;

    CHECK(text);
    memcpy(text, data, size);
    text[size] = '\0';
    size = strlen(text);
    mark = strchr(text, '?');
    at = mark ? mark + 1 : "";
    if (mark)
        *mark = '\0';
    while (http_query_next(&at, &name, &name_size, &value, &value_size)) {
        CHECK(name >= text && name + name_size <= text + size);
        CHECK(value >= text && value + value_size <= text + size);
        CHECK(++pairs <= size + 1);
    }
    if (http_unescape(text, false) == 0) {
        const struct route *route = route_find(methods[size % 7], text, params, &status, allow, sizeof(allow));

        CHECK(route || status == 404 || status == 405);
        for (int i = 0; route && i < REQUEST_PARAMS_MAX && params[i]; i++)
            CHECK(params[i] >= text && params[i] + strlen(params[i]) <= text + size && !strchr(params[i], '/'));
    }
    free(text);
    return 0;
}
