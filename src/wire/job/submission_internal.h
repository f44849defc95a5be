/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/* submission_internal.h - how submission_*.c share the work.
 *
 * A submission is read from a JSON tree by tables of keys: each key knows how it is read and how it is written, tables
 * are sorted, so what is written is canonical. An error remembers the path of the value; whoever has the text it came
 * from turns that into a line and a column.
 */
#include <jansson.h>

#include "wire/job/submission.h"

enum {
    SUBMISSION_PATH_MAX = 256,
    SUBMISSION_TEXT_MAX = 4096,
    SUBMISSION_LIST_MAX = 256,
    SUBMISSION_VALUES_MAX = 20000
};

struct submission_reader {
    struct submission *s;
    char path[SUBMISSION_PATH_MAX]; /* parts end in '\x1f' */
    size_t path_length;
    struct error *err;
    bool failed; /* err speaks of the value at path */
    bool at_key; /* of its key */
};

struct json_write;
struct submission_key {
    const char *name;
    int (*read)(struct submission_reader *rd, const struct submission_key *key, json_t *value);
    void (*write)(struct json_write *out, const struct submission_key *key, const struct submission *s);
    size_t offset; /* of the field */
    int64_t min, max;
    const char *const *words; /* of an enumeration, NULL at the end */
};

/* -EINVAL; the words follow the path. */
int reader_fail(struct submission_reader *rd, const char *words, ...) __attribute__((format(printf, 2, 3)));
int reader_memory(struct submission_reader *rd);
void reader_enter(struct submission_reader *rd, const char *part, size_t *ret_mark);
void reader_leave(struct submission_reader *rd, size_t mark);

/* Reads an object by a table; `count` keys. */
int reader_object(struct submission_reader *rd, const struct submission_key *keys, size_t count, json_t *value);

/* A text, a number or a boolean as text; at most `max` bytes. The buffer is for numbers; borrowed. */
int reader_text(struct submission_reader *rd, json_t *value, size_t max, char number[64], const char **ret_text);
int reader_i64(struct submission_reader *rd, json_t *value, int64_t min, int64_t max, int64_t *ret_value);
/* A list of texts, or one text; appended to an owned list. */
int reader_list(struct submission_reader *rd, json_t *value, size_t max, char ***list, size_t *count);

/* Kinds of fields, by offset. */
int read_text(struct submission_reader *rd, const struct submission_key *key, json_t *value);
int read_i32(struct submission_reader *rd, const struct submission_key *key, json_t *value);
int read_bool(struct submission_reader *rd, const struct submission_key *key, json_t *value);
int read_span(struct submission_reader *rd, const struct submission_key *key, json_t *value);
int read_instant(struct submission_reader *rd, const struct submission_key *key, json_t *value);
int read_size(struct submission_reader *rd, const struct submission_key *key, json_t *value);
int read_word(struct submission_reader *rd, const struct submission_key *key, json_t *value); /* enum, by words */
int read_signal(struct submission_reader *rd, const struct submission_key *key, json_t *value);
int read_refused(struct submission_reader *rd, const struct submission_key *key, json_t *value); /* words[0] says why */
void write_text(struct json_write *out, const struct submission_key *key, const struct submission *s);
void write_i32(struct json_write *out, const struct submission_key *key, const struct submission *s);
void write_bool(struct json_write *out, const struct submission_key *key, const struct submission *s);
void write_span(struct json_write *out, const struct submission_key *key, const struct submission *s);
void write_instant(struct json_write *out, const struct submission_key *key, const struct submission *s);
void write_size(struct json_write *out, const struct submission_key *key, const struct submission *s);
void write_word(struct json_write *out, const struct submission_key *key, const struct submission *s);
void write_signal(struct json_write *out, const struct submission_key *key, const struct submission *s);

/* A submission with the defaults, to compare with. */
const struct submission *submission_defaults(void);

/* submission_keys.c: the table of the outermost object. */
const struct submission_key *submission_keys(size_t *ret_count);
/* From a tree; on failure rd says where. */
int submission_from_tree(struct submission_reader *rd, json_t *tree);
/* submission_array.c: tasks that start one by one, `gang: false`. They are an array of one node each, and written so.
 */
int read_gang(struct submission_reader *rd, const struct submission_key *key, json_t *value);
void write_gang(struct json_write *out, const struct submission_key *key, const struct submission *s);
int gang_split(struct submission_reader *rd);

/* What no key alone can see. */
int submission_check(struct submission_reader *rd);
int roles_check(struct submission_reader *rd); /* what holds between roles, and between them and the job */
void submission_write(struct json_write *out, const struct submission_key *keys, size_t count,
                      const struct submission *s);

/* submission_array.c */
int read_array(struct submission_reader *rd, const struct submission_key *key, json_t *value);
void write_array(struct json_write *out, const struct submission_key *key, const struct submission *s);

/* submission_lists.c */
int read_args(struct submission_reader *rd, const struct submission_key *key, json_t *value);
void write_args(struct json_write *out, const struct submission_key *key, const struct submission *s);
int read_secrets(struct submission_reader *rd, const struct submission_key *key, json_t *value);
void write_secrets(struct json_write *out, const struct submission_key *key, const struct submission *s);
int read_mounts(struct submission_reader *rd, const struct submission_key *key, json_t *value);
void write_mounts(struct json_write *out, const struct submission_key *key, const struct submission *s);
int read_notify(struct submission_reader *rd, const struct submission_key *key, json_t *value);
void write_notify(struct json_write *out, const struct submission_key *key, const struct submission *s);
int read_env(struct submission_reader *rd, const struct submission_key *key, json_t *value);
void write_env(struct json_write *out, const struct submission_key *key, const struct submission *s);
int read_tags(struct submission_reader *rd, const struct submission_key *key, json_t *value);
void write_tags(struct json_write *out, const struct submission_key *key, const struct submission *s);
int read_progress(struct submission_reader *rd, const struct submission_key *key, json_t *value);
void write_progress(struct json_write *out, const struct submission_key *key, const struct submission *s);
int read_licenses(struct submission_reader *rd, const struct submission_key *key, json_t *value);
void write_licenses(struct json_write *out, const struct submission_key *key, const struct submission *s);
int read_after(struct submission_reader *rd, const struct submission_key *key, json_t *value);
void write_after(struct json_write *out, const struct submission_key *key, const struct submission *s);
int read_input(struct submission_reader *rd, const struct submission_key *key, json_t *value);
void write_input(struct json_write *out, const struct submission_key *key, const struct submission *s);
int read_one_of(struct submission_reader *rd, const struct submission_key *key, json_t *value); /* kept as text */

/* submission_training.c */
int read_training(struct submission_reader *rd, const struct submission_key *key, json_t *value);
void write_training(struct json_write *out, const struct submission_key *key, const struct submission *s);
int read_deadlines(struct submission_reader *rd, const struct submission_key *key, json_t *value);
void write_deadlines(struct json_write *out, const struct submission_key *key, const struct submission *s);
int training_check(struct submission_reader *rd);
void training_bind(const struct submission *s, struct jobspec *spec);

/* submission_roles.c */
int read_roles(struct submission_reader *rd, const struct submission_key *key, json_t *value);
void write_roles(struct json_write *out, const struct submission_key *key, const struct submission *s);

/* job_pai.c: a tree with `protocolVersion` becomes a tree of ours. */
int job_pai_convert(struct submission_reader *rd, json_t *pai, json_t **ret_tree);
