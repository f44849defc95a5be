/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/* assets.h - the files of the dashboard, part of the program; the table is made by web/pack.c. */
#include <stddef.h>

struct asset {
    const char *path, *type, *etag;
    const unsigned char *plain;
    size_t plain_size;
    const unsigned char *packed; /* gzip */
    size_t packed_size;
};

extern const struct asset assets[];
extern const size_t asset_count;
