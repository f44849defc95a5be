/* SPDX-License-Identifier: Apache-2.0 */
/* submission_edit.c - the document of a submission with some of its values changed. It is not made anew of the
 * submission: what a person wrote stays in their words. */
#include <jansson.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "wire/job/submission.h"
#include "wire/text/json_quick.h"
#include "wire/text/json_read.h"

static void tags_edit(json_t *tree, const struct submission_edit *edit)
{
    json_t *tags = json_object_get(tree, "tags");

    if (!tags) {
        tags = json_object();
        (void)json_object_set_new(tree, "tags", tags);
    }
    for (size_t i = 0; i < edit->tag_count; i++)
        if (edit->tags[i].value)
            (void)json_object_set_new(tags, edit->tags[i].key, json_string(edit->tags[i].value));
        else
            (void)json_object_del(tags, edit->tags[i].key);
    if (json_object_size(tags) == 0)
        (void)json_object_del(tree, "tags");
}

char *submission_edit(const char *doc, const struct submission_edit *edit)
{
    json_t *tree = NULL;
    char *text, *own;

    if (json_read("spec", doc, strlen(doc), &tree, NULL) < 0)
        return NULL;
    if (edit->drop_comment)
        (void)json_object_del(tree, "comment");
    else if (edit->comment)
        (void)json_object_set_new(tree, "comment", json_string(edit->comment));
    if (edit->tag_count)
        tags_edit(tree, edit);
    if (edit->time)
        (void)json_object_set_new(tree, "time", json_sprintf("%llds", (long long)(*edit->time / USEC_SEC)));
    if (edit->priority)
        (void)json_object_set_new(tree, "priority", json_integer(*edit->priority));
    if (edit->vc)
        (void)json_object_set_new(tree, "vc", json_string(edit->vc));
    text = json_text(tree, NULL);
    json_decref(tree);
    own = text ? mem_strdup(text) : NULL;
    free(text); /* jansson's */
    return own;
}
