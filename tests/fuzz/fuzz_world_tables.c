/* SPDX-License-Identifier: Apache-2.0 */
/* fuzz_world_tables.c - tables of speeds and pairs, whatever is in them.
 *
 * The first byte picks the family, the rest is the file. A table that loads must answer every question with a finite
 * number, and one that does not must say why. Families read paths, so the file lives in memory behind /proc/self/fd,
 * and folders are links to it.
 */
#include <assert.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "sim/world/world_table.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static int file = -1;
static char root[] = "/tmp/muster-fuzz-XXXXXX";
static char file_path[64];

static void make_folder(const char *name)
{
    char path[128];

    (void)snprintf(path, sizeof(path), "%s/%s", root, name);
    if (mkdir(path, 0700) != 0)
        abort();
}

static void link_to_file(const char *name)
{
    char path[128];

    (void)snprintf(path, sizeof(path), "%s/%s", root, name);
    if (symlink(file_path, path) != 0)
        abort();
}

static void clean_up(void)
{
    char command[64];

    (void)snprintf(command, sizeof(command), "rm -rf %s", root);
    if (system(command) != 0)
        abort();
}

static void set_up(void)
{
    file = memfd_create("table", 0);
    if (file < 0 || !mkdtemp(root))
        abort();
    (void)snprintf(file_path, sizeof(file_path), "/proc/self/fd/%d", file);
    make_folder("throughputs_T4");
    make_folder("steps");
    make_folder("steps/net");
    make_folder("counts");
    make_folder("counts/net");
    link_to_file("throughputs_T4/net.csv");
    link_to_file("steps/net/placements.csv");
    link_to_file("counts/net/placements.csv.unread"); /* a model is a folder with something of that name */
    link_to_file("counts/net/scalability.csv");
    (void)atexit(clean_up);
}

static void ask(struct table *table)
{
    static const struct world_shape shapes[] = {
        { 1, 1, 1, 0, 1, 1, { 1 }, 0, { { 0, 0 } }, 0, false, false, false, 0 },
        { 4, 1, 1, 0, 4, 4, { 4 }, 0, { { 0, 0 } }, 0, false, false, false, 0 },
        { 7, 3, 1, 0, 4, 1, { 4, 2, 1 }, 0, { { 0, 0 } }, 0, false, false, false, 0 },
        { 64,
          16,
          2,
          0,
          4,
          4,
          { 4, 4, 4, 4, 4, 4, 4, 4, 4, 4, 4, 4, 4, 4, 4, 4 },
          0,
          { { 0, 0 } },
          0,
          false,
          false,
          false,
          0 },
        { 40,
          40,
          2,
          0,
          1,
          1,
          { 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1 },
          0,
          { { 0, 0 } },
          0,
          false,
          false,
          false,
          0 },
    };
    uint32_t entries[4], count = 0;

    for (uint32_t m = 0; m < table->models.count && count < 4; m++) {
        struct table_job job = { names_get(&table->models, m), 32 * m, 1 };

        if (table->ops->find(table, &job, &entries[count], NULL) == 0)
            count++;
    }
    for (uint32_t i = 0; i < count * 5; i++) {
        struct table_place place = { &shapes[i % 5], 0, 1 };
        uint32_t two[2] = { entries[i / 5], entries[(i + 1) % count] };
        double rates[2];

        if (table->ops->speed) {
            double speed = table->ops->speed(table, entries[i / 5], &place);

            assert(speed >= 0); /* not nan */
        }
        if (table->ops->iterations)
            assert(table->ops->iterations(table, entries[i / 5]) >= 0);
        if (table->ops->pair && table->ops->pair(table, two, &place, rates) == 0) {
            assert(rates[0] >= 0);
            assert(rates[1] >= 0);
        }
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static const char *const kinds[] = { "native", "pairs", "gavel", "chronus", "lucid", "muri" };
    struct table *table = NULL;
    struct error err = { 0 };
    char spec[160];
    int r;

    if (file < 0)
        set_up();
    if (!size || ftruncate(file, 0) != 0 || pwrite(file, data + 1, size - 1, 0) != (ssize_t)(size - 1))
        return 0;
    switch (*data % 12) {
    case 0 ... 5:
        (void)snprintf(spec, sizeof(spec), "%s:%s", file_path, kinds[*data % 12]);
        break;
    case 6:
        (void)snprintf(spec, sizeof(spec), "%s/throughputs_T4:elasticflow", root);
        break;
    case 7:
        (void)snprintf(spec, sizeof(spec), "%s/steps:pollux", root);
        break;
    case 8:
        (void)snprintf(spec, sizeof(spec), "%s/counts:pollux", root);
        break;
    case 10:
        (void)snprintf(spec, sizeof(spec), "%s:servers", file_path);
        break;
    case 11:
        (void)snprintf(spec, sizeof(spec), "%s/steps:pollux-sim", root);
        break;
    default:
        (void)snprintf(spec, sizeof(spec), "%s", file_path);
    }
    r = table_open(spec, &table, &err);
    assert((r == 0) == (table != NULL));
    assert(r == 0 || err.text[0]);
    if (table)
        ask(table);
    table_free(table);
    return 0;
}
