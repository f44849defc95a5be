/* SPDX-License-Identifier: Apache-2.0 */
#include "wire/job/constraint.h"

#include <errno.h>
#include <string.h>

static const char letters[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_./";

/* One term, at *at; what follows is there afterwards. false: it is none. */
struct term {
    bool turned;
    const char *label, *value; /* value NULL: not told */
    size_t label_size, value_size;
};

static bool term_read(const char **at, struct term *term)
{
    *term = (struct term){ .turned = **at == '!' };
    *at += term->turned;
    term->label = *at;
    term->label_size = strspn(*at, letters);
    *at += term->label_size;
    if (**at == '=') {
        term->value = ++*at;
        term->value_size = strspn(*at, letters);
        *at += term->value_size;
    }
    return term->label_size > 0 && (!term->value || term->value_size > 0);
}

int constraint_check(const char *text, struct error *err)
{
    const char *at = text;
    struct term term;

    if (strlen(text) > CONSTRAINT_MAX)
        return error_set(err, -EINVAL, "constraint: at most %d letters", CONSTRAINT_MAX);
    for (;;) {
        if (!term_read(&at, &term))
            return error_set(err, -EINVAL, "constraint: column %zu: expected a label, such as ib or gen=h100",
                             (size_t)(at - text) + 1);
        if (!*at)
            return 0;
        if (*at != '&' && *at != ',' && *at != '|')
            return error_set(err, -EINVAL, "constraint: column %zu: expected '&' or '|'", (size_t)(at - text) + 1);
        at++;
    }
}

bool constraint_holds(const char *text, constraint_label_fn label, void *arg)
{
    bool group = true, any = false;
    struct term term;

    for (const char *at = text; term_read(&at, &term);) {
        char name[CONSTRAINT_MAX + 1];
        const char *value;
        bool holds;

        memcpy(name, term.label, term.label_size);
        name[term.label_size] = '\0';
        value = label(arg, name);
        holds = value &&
                (!term.value || (strlen(value) == term.value_size && memcmp(value, term.value, term.value_size) == 0));
        group &= holds != term.turned;
        if (!*at || *at == '|') {
            any |= group;
            group = true;
        }
        if (!*at)
            break;
        at++;
    }
    return any;
}
