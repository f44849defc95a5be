/* SPDX-License-Identifier: Apache-2.0 */
/* rest_static.c - the dashboard's files and the interface's own description, from memory. */
#include <string.h>

#include "ctl/http/assets.h"
#include "ctl/rest/rest.h"

extern const char asset_openapi[];
extern const size_t asset_openapi_size;

static const struct asset *asset_find(const char *path)
{
    for (size_t i = 0; i < asset_count; i++)
        if (strcmp(assets[i].path, path) == 0)
            return &assets[i];
    return NULL;
}

bool rest_static(struct request *request)
{
    const struct http_message *m = request->message;
    const char *none = http_header(m, "if-none-match"), *path = request->path;
    const struct asset *asset;
    bool packed;

    if (strcmp(m->method, "GET") != 0 && strcmp(m->method, "HEAD") != 0)
        return false;
    asset = asset_find(path);
    /* Views of the dashboard have addresses of their own, and are the same page. */
    if (!asset && strncmp(path, "/api", 4) != 0 && strncmp(path, "/agent", 6) != 0 &&
        http_list_has(http_header(m, "accept"), "text/html"))
        asset = asset_find("/index.html");
    if (!asset && strcmp(path, "/") == 0)
        asset = asset_find("/index.html");
    if (!asset)
        return false;
    reply_header(request, "Content-Security-Policy",
                 "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; connect-src 'self'; "
                 "font-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'");
    reply_header(request, "Referrer-Policy", "no-referrer");
    reply_header(request, "Cache-Control", "no-cache");
    reply_header(request, "ETag", "%s", asset->etag);
    reply_header(request, "Vary", "Accept-Encoding");
    if (none && strstr(none, asset->etag)) {
        reply(request, 304, NULL, NULL, 0);
        return true;
    }
    packed = http_list_has(http_header(m, "accept-encoding"), "gzip");
    if (packed)
        reply_header(request, "Content-Encoding", "gzip");
    reply(request, 200, asset->type, packed ? asset->packed : asset->plain,
          packed ? asset->packed_size : asset->plain_size);
    return true;
}

void rest_openapi(struct request *request)
{
    reply(request, 200, "application/json", asset_openapi, asset_openapi_size);
}
