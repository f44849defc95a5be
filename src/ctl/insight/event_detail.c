/* SPDX-License-Identifier: Apache-2.0 */
#include "ctl/insight/event_detail.h"

#include <jansson.h>
#include <stdlib.h>
#include <string.h>

#include "wire/text/json_read.h"
#include "wire/text/json_write.h"

/* What a job says of its checkpoint is its own affair: it is shown with its keys in order, as all details are. */
static void doc_put(struct buf *out, const char *doc)
{
    json_t *tree = NULL;
    char *text = NULL;

    if (json_read("detail", doc, strlen(doc), &tree, NULL) == 0)
        text = json_dumps(tree, JSON_COMPACT | JSON_SORT_KEYS);
    buf_text(out, text ? text : "null");
    free(text); /* jansson's */
    json_decref(tree);
}

static void fact_put(struct json_write *json, const struct ctl_fact *fact)
{
    switch (fact->kind) {
    case FACT_NUMBER:
        json_write_i64(json, fact->name, fact->number);
        break;
    case FACT_SECONDS:
        json_write_double(json, fact->name, (double)fact->number / (double)USEC_SEC);
        break;
    case FACT_TEXT:
    case FACT_DOC:
        if (fact->text)
            json_write_text(json, fact->name, fact->text);
        else
            json_write_null(json, fact->name);
    }
}

void event_detail_put(struct buf *out, const struct ctl_event *event)
{
    struct json_write json;

    if (!event->facts) {
        buf_text(out, "null");
        return;
    }
    if (event->facts->kind == FACT_DOC) {
        doc_put(out, event->facts->text);
        return;
    }
    json_write_init(&json, out, false);
    json_write_object(&json, NULL);
    for (const struct ctl_fact *fact = event->facts; fact->name; fact++)
        fact_put(&json, fact);
    json_write_close(&json);
}

const char *event_detail_text(const struct ctl_event *event, const char *name)
{
    const struct ctl_fact *fact = event_fact(event, name);

    return fact ? fact->text : NULL;
}

int64_t event_detail_number(const struct ctl_event *event, const char *name)
{
    const struct ctl_fact *fact = event_fact(event, name);

    return fact ? fact->number : 0;
}
