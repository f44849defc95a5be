/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/* import.h - foreign traces, read as they are.
 *
 * Each format is a file import_<name>.c with one struct row_format, or a reader of its own. Nothing is left out or made
 * up without a note: the caller prints them.
 */
#include "base/buf.h"
#include "model/trace.h"

enum { IMPORT_NOTES_MAX = 16 };

struct import_note {
    const char *text; /* "left out: num_gpu is 0"; static */
    uint64_t count;   /* rows it speaks of */
    uint32_t line;    /* the first of them */
};

struct import_notes {
    struct import_note notes[IMPORT_NOTES_MAX];
    size_t count;
};

struct row_format;

struct import_format {
    const char *name;
    const char *summary; /* one line, for --help */
    const char *sample;  /* how the first line of such a file begins; NULL = cannot be told by it */
    const struct row_format *rows;
    /* In place of rows, for what is not one job a line. *ret_trace is zero before and untouched on failure. */
    int (*read)(const char *file, const struct bytes *bytes, struct trace *ret_trace, struct import_notes *ret_notes,
                struct error *err);
};

/* The formats, ended by a NULL name. */
extern const struct import_format import_formats[];

/* The format by name, or NULL. */
const struct import_format *import_find(const char *name);

/* The format the bytes look like, or NULL; only a hint for messages. */
const struct import_format *import_guess(const struct bytes *bytes);

/* Reads `bytes` into *ret_trace (zero before, untouched on failure) and the notes. `file` is for messages. */
int import_trace(const char *format, const char *file, const struct bytes *bytes, struct trace *ret_trace,
                 struct import_notes *ret_notes, struct error *err) __attribute__((warn_unused_result));
