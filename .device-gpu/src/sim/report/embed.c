/* SPDX-License-Identifier: Apache-2.0 */
/* embed.c - turns files into C arrays at build time: embed OUT.c NAME FILE [NAME FILE]...
 *
 * Each becomes `const char asset_NAME[]`, with a '\0' behind the last byte, and `const size_t asset_NAME_size`.
 * A tool of the build, so that the report needs no file beside the program.
 */
#include <stdio.h>

static int embed(FILE *out, const char *name, const char *path)
{
    FILE *in = fopen(path, "rb");
    int c, column = 0;

    if (!in) {
        perror(path);
        return -1;
    }
    fprintf(out, "extern const char asset_%s[];\nextern const size_t asset_%s_size;\nconst char asset_%s[] = {\n", name,
            name, name);
    while ((c = getc(in)) != EOF) {
        fprintf(out, "%d,", c > 127 ? c - 256 : c);
        if (++column % 32 == 0)
            fputc('\n', out);
    }
    fprintf(out, "0};\nconst size_t asset_%s_size = sizeof(asset_%s) - 1;\n", name, name);
    if (ferror(in)) {
        perror(path);
        fclose(in);
        return -1;
    }
    fclose(in);
    return 0;
}

int main(int argc, char **argv)
{
    FILE *out;

    if (argc < 4 || argc % 2 != 0) {
        fputs("usage: embed OUT.c NAME FILE [NAME FILE]...\n", stderr);
        return 2;
    }
    out = fopen(argv[1], "wb");
    if (!out) {
        perror(argv[1]);
        return 1;
    }
    fputs("/* Made by embed. */\n#include <stddef.h>\n", out);
    for (int i = 2; i < argc; i += 2)
        if (embed(out, argv[i], argv[i + 1]) < 0) {
            fclose(out);
            remove(argv[1]);
            return 1;
        }
    if (fclose(out) != 0) {
        perror(argv[1]);
        return 1;
    }
    return 0;
}
