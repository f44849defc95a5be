/* SPDX-License-Identifier: Apache-2.0 */
/* pack.c - turns the files of the dashboard into a C table at build time: pack OUT.c FOLDER FILE...
 *
 * Each file is compressed (gzip, no time in it, so that builds are equal) and has its path below FOLDER, its type by
 * the ending, and an entity tag made of its bytes.
 */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <zlib.h>

static const char *type_of(const char *path)
{
    static const char *const types[][2] = {
        { ".html", "text/html; charset=utf-8" },
        { ".css", "text/css; charset=utf-8" },
        { ".js", "text/javascript; charset=utf-8" },
        { ".svg", "image/svg+xml" },
        { ".json", "application/json" },
        { ".png", "image/png" },
        { ".ico", "image/x-icon" },
        { ".webmanifest", "application/manifest+json" },
        { ".woff2", "font/woff2" },
        { ".txt", "text/plain; charset=utf-8" },
    };
    const char *dot = strrchr(path, '.');

    for (size_t i = 0; dot && i < sizeof(types) / sizeof(types[0]); i++)
        if (strcmp(dot, types[i][0]) == 0)
            return types[i][1];
    return "application/octet-stream";
}

static unsigned char *file_load(const char *path, size_t *ret_size)
{
    FILE *in = fopen(path, "rb");
    unsigned char *data = NULL;
    long size;

    if (!in || fseek(in, 0, SEEK_END) < 0 || (size = ftell(in)) < 0 || fseek(in, 0, SEEK_SET) < 0)
        goto out;
    data = malloc((size_t)size + 1);
    if (data && fread(data, 1, (size_t)size, in) != (size_t)size) {
        free(data);
        data = NULL;
    }
    *ret_size = (size_t)size;
out:
    if (in)
        fclose(in);
    if (!data)
        perror(path);
    return data;
}

static unsigned char *squeeze(const unsigned char *data, size_t size, size_t *ret_size)
{
    z_stream z = { 0 };
    size_t room = size + size / 1000 + 128;
    unsigned char *out = malloc(room);

    if (!out || deflateInit2(&z, 9, Z_DEFLATED, 15 + 16, 9, Z_DEFAULT_STRATEGY) != Z_OK)
        exit(1);
    z.next_in = (unsigned char *)(uintptr_t)data;
    z.avail_in = (unsigned)size;
    z.next_out = out;
    z.avail_out = (unsigned)room;
    if (deflate(&z, Z_FINISH) != Z_STREAM_END)
        exit(1);
    *ret_size = z.total_out;
    deflateEnd(&z);
    return out;
}

static void bytes_print(FILE *out, const char *name, size_t number, const unsigned char *data, size_t size)
{
    fprintf(out, "static const unsigned char %s_%zu[] = {", name, number);
    for (size_t i = 0; i < size; i++)
        fprintf(out, "%s%u,", i % 24 == 0 ? "\n" : "", data[i]);
    fputs("0};\n", out);
}

int main(int argc, char **argv)
{
    FILE *out = argc > 3 ? fopen(argv[1], "wb") : NULL;
    char table[65536] = "";

    if (!out) {
        fputs("usage: pack OUT.c FOLDER FILE...\n", stderr);
        return 2;
    }
    fputs("/* Made by web/pack.c. */\n#include \"ctl/http/assets.h\"\n", out);
    for (int i = 3; i < argc; i++) {
        size_t size, packed_size, length = strlen(argv[2]), used = strlen(table);
        unsigned char *data = file_load(argv[i], &size), *packed;
        const char *path = strstr(argv[i], argv[2]);
        uint64_t hash = 14695981039346656037ULL;

        if (!data)
            return 1;
        path = path ? path + length : argv[i];
        for (size_t b = 0; b < size; b++)
            hash = (hash ^ data[b]) * 1099511628211ULL;
        packed = squeeze(data, size, &packed_size);
        bytes_print(out, "plain", (size_t)i, data, size);
        bytes_print(out, "packed", (size_t)i, packed, packed_size);
        snprintf(table + used, sizeof(table) - used,
                 "    { \"%s%s\", \"%s\", \"\\\"%016llx\\\"\", plain_%d, %zu, packed_%d, %zu },\n",
                 *path == '/' ? "" : "/", path, type_of(path), (unsigned long long)hash, i, size, i, packed_size);
        free(data);
        free(packed);
    }
    fprintf(out, "const struct asset assets[] = {\n%s};\nconst size_t asset_count = %d;\n", table, argc - 3);
    return fclose(out) == 0 ? 0 : 1;
}
