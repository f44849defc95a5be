/* SPDX-License-Identifier: Apache-2.0 */
/* fsck.c - musterd fsck: what the store finds in a state, and what was asked for in batches that are lost. */
#include "ctl/daemon/fsck.h"

#include <argp.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "ctl/log/entry_json.h"
#include "ctl/state/entry/entry.h"
#include "store/store.h"

enum { KEY_REPAIR = 0x100, KEY_BACKUP };

struct fsck_options {
    const char *directory, *backup;
    bool repair;
};

static const struct argp_option fsck_list[] = {
    { "repair", KEY_REPAIR, NULL, 0, "make a state of what can be read, and keep the damaged files in a folder", 0 },
    { "backup", KEY_BACKUP, "FILE", 0, "with --repair: take from this backup what cannot be read", 0 },
    { 0 },
};

static error_t fsck_parse(int key, char *arg, struct argp_state *state)
{
    struct fsck_options *options = state->input;

    switch (key) {
    case KEY_REPAIR:
        options->repair = true;
        break;
    case KEY_BACKUP:
        options->backup = arg;
        break;
    case ARGP_KEY_ARG:
        if (options->directory)
            argp_error(state, "one state at a time");
        options->directory = arg;
        break;
    case ARGP_KEY_END:
        if (!options->directory)
            argp_error(state, "say which: musterd fsck DIR");
        if (options->backup && !options->repair)
            argp_error(state, "--backup goes with --repair");
        break;
    default:
        return ARGP_ERR_UNKNOWN;
    }
    return 0;
}

static const struct argp fsck_argp = {
    fsck_list,
    fsck_parse,
    "DIR",
    "Looks a state through that no controller uses.\vIt says what is damaged and what is "
    "missing, and changes nothing unless it is told to. The status is 1 where something is.",
    NULL,
    NULL,
    NULL
};

static void say(void *arg, const char *line)
{
    (void)arg;
    printf("%s\n", line);
}

/* The job that an entry speaks of; 0: none. */
static int64_t job_of(const struct entry *entry)
{
    const struct field_list *list = entry_fields(entry->kind);

    for (size_t i = 0; i < list->count; i++) {
        const struct entry_field *field = &list->fields[i];

        if (field->type == FIELD_NUMBER && strcmp(field->name, "job") == 0)
            return *(const int64_t *)(const void *)((const char *)entry_record_of(entry) + field->offset);
    }
    return 0;
}

/* The content is the controller's, and may be of another version: what is no entry is not spoken of. */
static int lost(void *arg, uint64_t seq, const char *data, size_t size, struct error *err)
{
    struct entry *entries = NULL;
    struct error own = { 0 };
    size_t count = 0;
    usec_t at;
    int r = batch_is(data, size) ? batch_decode(data, size, &at, &entries, &count, &own)
                                 : batch_from_json(data, size, &at, &entries, &count, &own);

    (void)arg;
    (void)err;
    if (r < 0) {
        printf("lost: batch %" PRIu64 ": %zu bytes that are no entries of this version\n", seq, size);
        return 0;
    }
    for (size_t i = 0; i < count; i++) {
        int64_t job = job_of(&entries[i]);

        if (job)
            printf("lost: batch %" PRIu64 ": %s, job %" PRId64 "\n", seq, entry_name(entries[i].kind), job);
        else
            printf("lost: batch %" PRIu64 ": %s\n", seq, entry_name(entries[i].kind));
    }
    entries_free(entries, count);
    return 0;
}

int fsck_run(int argc, char **argv)
{
    struct fsck_options options = { 0 };
    struct store_fsck how = { .say = say, .lost = lost };
    struct error err = { 0 };

    argp_parse(&fsck_argp, argc, argv, 0, NULL, &options);
    how.repair = options.repair;
    how.backup = options.backup;
    if (store_fsck(options.directory, &how, &err) == 0)
        return 0;
    (void)fflush(stdout);
    fprintf(stderr, "musterd: error: %s\n", err.text);
    return 1;
}
