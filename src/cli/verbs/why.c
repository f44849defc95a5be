/* SPDX-License-Identifier: Apache-2.0 */
/* why.c - see why.h. Plain words first, numbers second, what could be done last. Everything told here was recorded by
 * the decision or asked of the same scheduler; nothing is guessed by the client. */
#include "cli/verbs/why.h"

#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "base/buf.h"
#include "cli/fmt.h"
#include "cli/listing.h"
#include "wire/text/hostlist.h"

enum { NODES_SHOWN = 16 };

static void eta_show(json_t *eta)
{
    usec_t at = fmt_time(eta, "at"), low = fmt_time(eta, "low"), high = fmt_time(eta, "high"), now = fmt_now();
    char when[FMT_MAX], from[FMT_MAX], to[FMT_MAX];
    const char *basis = fmt_text(eta, "basis");

    if (!at)
        return;
    (void)printf("Starts   ~%s", fmt_clock(at, now, when));
    if (low && high && low != high)
        (void)printf(", likely %s-%s", fmt_clock(low, now, from), fmt_clock(high, now, to));
    if (*basis)
        (void)printf(" (%s)", basis);
    (void)putchar('\n');
}

static void free_show(json_t *list)
{
    json_t *item;
    size_t i;

    if (json_array_size(list) == 0)
        return;
    (void)printf("  %-8s", "free");
    json_array_foreach(list, i, item)
    {
        if (i == 12) {
            (void)printf(" and %zu more nodes", json_array_size(list) - i);
            break;
        }
        (void)printf(" %s %lld%s", fmt_text(item, "node"), (long long)fmt_i64(item, "gpus"),
                     i + 1 < json_array_size(list) ? " " : "");
    }
    (void)putchar('\n');
}

/* "gpu[01-03]" */
static void nodes_text(json_t *nodes, char text[FMT_MAX])
{
    CLEANUP_BUF struct buf out = BUF_INIT(65536);
    const char *names[NODES_SHOWN];
    size_t count = 0, i;
    json_t *name;

    (void)snprintf(text, FMT_MAX, "%.60s", json_is_string(nodes) ? json_string_value(nodes) : "");
    json_array_foreach(nodes, i, name) if (count < NODES_SHOWN && json_is_string(name)) names[count++] =
        json_string_value(name);
    if (count == 0)
        return;
    hostlist_put(&out, names, count);
    buf_char(&out, '\0');
    (void)snprintf(text, FMT_MAX, "%.100s", out.error ? "" : out.data);
}

static void held_show(json_t *list)
{
    usec_t now = fmt_now();
    json_t *item;
    size_t i;

    if (json_array_size(list) == 0)
        return;
    (void)printf("  %-9s", "held by");
    json_array_foreach(list, i, item)
    {
        json_t *nodes = json_object_get(item, "nodes");
        char where[FMT_MAX];
        usec_t until = fmt_time(item, "until");
        char when[FMT_MAX], id[FMT_MAX];

        nodes_text(nodes, where);
        if (i == 6) {
            (void)printf("; and %zu more", json_array_size(list) - i);
            break;
        }
        (void)printf("%s%s %s %lld", i ? "; " : "", fmt_id(item, id), fmt_text(item, "user"),
                     (long long)fmt_i64(item, "gpus"));
        if (*where)
            (void)printf(" on %s", where);
        if (until)
            (void)printf(" (until ~%s)", fmt_clock(until, now, when));
    }
    (void)putchar('\n');
}

static void ahead_show(json_t *list)
{
    char id[FMT_MAX];
    json_t *item;
    size_t i;

    if (!json_is_array(list))
        return;
    (void)printf("  %-9s", "ahead");
    if (json_array_size(list) == 0)
        (void)fputs("nobody", stdout);
    json_array_foreach(list, i, item)
    {
        if (i == 6) {
            (void)printf(", and %zu more", json_array_size(list) - i);
            break;
        }
        (void)printf("%s%s %s %lld", i ? ", " : "", fmt_id(item, id), fmt_text(item, "user"),
                     (long long)fmt_i64(item, "gpus"));
    }
    (void)putchar('\n');
}

static void shapes_show(json_t *list)
{
    json_t *item;
    size_t i, width = 0;

    if (json_array_size(list) == 0)
        return;
    (void)puts("Other shapes");
    json_array_foreach(list, i, item) width =
        strlen(fmt_text(item, "flags")) > width ? strlen(fmt_text(item, "flags")) : width;
    json_array_foreach(list, i, item)
    {
        const char *text = fmt_text(item, "text"), *nodes = fmt_text(item, "nodes");
        bool ok = !json_is_false(json_object_get(item, "ok"));

        (void)printf("  %-*s   ", (int)width, fmt_text(item, "flags"));
        if (*text)
            (void)puts(text);
        else if (ok)
            (void)printf("starts now%s%s\n", *nodes ? " on " : "", nodes);
        else
            (void)puts("no");
    }
}

/* What it asks for of each, and who has it where that is not there. */
static void licenses_show(json_t *list)
{
    json_t *item, *holder;
    size_t i, k;

    json_array_foreach(list, i, item)
    {
        (void)printf("  %-8s %s: asks for %lld, %lld of %lld free", "licence", fmt_text(item, "name"),
                     (long long)fmt_i64(item, "asks"), (long long)fmt_i64(item, "free"),
                     (long long)fmt_i64(item, "total"));
        json_array_foreach(json_object_get(item, "heldBy"), k, holder)
        {
            if (!json_is_true(json_object_get(item, "short")))
                break;
            (void)printf("%s%lld %s %lld", k ? ", " : "; held by ", (long long)fmt_i64(holder, "job"),
                         fmt_text(holder, "user"), (long long)fmt_i64(holder, "count"));
        }
        (void)putchar('\n');
    }
}

/* Nodes that are kept from one that waits, and until when; or when one that runs has to leave its own. */
static void resvs_show(json_t *list, bool waits)
{
    char when[FMT_MAX];
    json_t *item;
    size_t i;

    json_array_foreach(list, i, item)
    {
        usec_t start = fmt_time(item, "start"), now = fmt_now();

        if (!waits)
            (void)printf("  %-8s %s, when reservation %s of %s begins\n", "leaves", fmt_clock(start, now, when),
                         fmt_text(item, "name"), fmt_text(item, "nodes"));
        else
            (void)printf("  %-8s %s for %s until %s\n", "reserved", fmt_text(item, "nodes"), fmt_text(item, "name"),
                         fmt_clock(fmt_time(item, "end"), now, when));
    }
}

static void receipt_show(json_t *receipt)
{
    const char *text = fmt_text(receipt, "text"), *step = fmt_text(receipt, "step"), *by = fmt_text(receipt, "by");
    json_t *number = json_object_get(receipt, "by");

    if (!json_is_object(receipt))
        return;
    (void)printf("Receipt  %s\n", *text ? text : "it was told to leave");
    if (*by)
        (void)printf("  %-8s %s\n", "by", by);
    else if (json_is_integer(number) && json_integer_value(number))
        (void)printf("  %-8s job %lld\n", "by", (long long)json_integer_value(number));
    if (*step)
        (void)printf("  %-8s %s\n", "step", step);
    if (!fmt_null(receipt, "lost_gpu_seconds"))
        (void)printf("  %-8s %lld GPU-seconds since the last checkpoint\n", "lost",
                     (long long)fmt_i64(receipt, "lost_gpu_seconds"));
}

/* Of one that failed and whose place is kept: until when, and what can be done about it. */
static void kept_show(json_t *e, const char *id)
{
    char when[FMT_MAX];

    if (!fmt_time(e, "kept_until"))
        return;
    (void)printf("  %-8s %s\n", "until", fmt_clock(fmt_time(e, "kept_until"), fmt_now(), when));
    (void)printf("  %-8s muster exec %s -- bash\n", "go in", id);
    (void)printf("  %-8s muster release %s (it ends as it failed); muster cancel %s (and is not tried again)\n",
                 "let go", id, id);
}

/* Where to look next: what it said before it failed. */
static void output_show(json_t *e, const char *id)
{
    static const char *const failed[] = { "FAILED", "TIMEOUT", "OUT_OF_MEMORY", "NODE_FAIL" };

    for (size_t i = 0; i < sizeof(failed) / sizeof(failed[0]); i++)
        if (strcmp(fmt_text(e, "state"), failed[i]) == 0)
            (void)printf("  %-8s muster logs %s\n", "output", id);
}

void why_show(json_t *e)
{
    json_t *asks = json_object_get(e, "asks"), *entitlement = json_object_get(e, "entitlement");
    const char *code, *message;
    char span[FMT_MAX], id[FMT_MAX];

    json_harmless(e);
    code = fmt_text(e, "code");
    message = fmt_text(e, "message");
    (void)printf("Job %s %s (%s, vc %s, %s)  %s", fmt_id(e, id), fmt_text(e, "name"), fmt_text(e, "user"),
                 fmt_text(e, "vc"), fmt_text(e, "priority_class"), fmt_text(e, "state"));
    if (strcmp(fmt_text(e, "state"), "PENDING") == 0)
        (void)printf(" for %s", fmt_seconds(fmt_i64(e, "pending_seconds"), span));
    (void)putchar('\n');
    if (*code || *message)
        (void)printf("Reason   %s%s%s\n", code, *code && *message ? ": " : "", message);
    kept_show(e, id);
    output_show(e, id);
    if (*fmt_text(asks, "text"))
        (void)printf("  %-8s %s\n", "asks", fmt_text(asks, "text"));
    if (json_is_object(json_object_get(e, "promise")))
        (void)printf("  %-8s %s\n", "deadline", fmt_promise(json_object_get(e, "promise"), span));
    if (*fmt_text(entitlement, "text")) {
        char label[64];

        (void)snprintf(label, sizeof(label), "vc %.40s", fmt_text(entitlement, "vc"));
        (void)printf("  %-8s %s\n", label, fmt_text(entitlement, "text"));
    }
    licenses_show(json_object_get(e, "licenses"));
    resvs_show(json_object_get(e, "reservations"), strcmp(fmt_text(e, "state"), "PENDING") == 0);
    free_show(json_object_get(e, "free"));
    held_show(json_object_get(e, "heldBy"));
    if (strcmp(fmt_text(e, "state"), "PENDING") == 0)
        ahead_show(json_object_get(e, "ahead"));
    receipt_show(json_object_get(e, "receipt"));
    eta_show(json_object_get(e, "eta"));
    shapes_show(json_object_get(e, "startsNowWith"));
}

void plan_show(json_t *plan)
{
    json_t *list, *item;
    usec_t at = fmt_time(plan, "startsAt");
    const char *code, *message;
    char when[FMT_MAX];
    size_t i;

    json_harmless(plan);
    code = fmt_text(plan, "code");
    message = fmt_text(plan, "message");
    if (json_is_false(json_object_get(plan, "feasible")))
        (void)printf("Refused  %s%s%s\n", code, *code && *message ? ": " : "", message);
    else if (at && at <= fmt_now() + USEC_SEC)
        (void)printf("Starts   now%s%s\n", *fmt_text(plan, "nodelist") ? " on " : "", fmt_text(plan, "nodelist"));
    else if (at)
        (void)printf("Starts   ~%s%s%s%s%s%s\n", fmt_clock(at, fmt_now(), when),
                     *fmt_text(plan, "nodelist") ? " on " : "", fmt_text(plan, "nodelist"),
                     *message ? " at the earliest (" : "", message, *message ? ")" : "");
    else
        (void)printf("Waits    %s%s%s\n", code, *code && *message ? ": " : "", message);
    list = json_object_get(plan, "placement");
    if (json_array_size(list)) {
        (void)printf("  %-8s", "on");
        json_array_foreach(list, i, item)(void)
            printf(" %s %zu%s", fmt_text(item, "node"), json_array_size(json_object_get(item, "gpus")),
                   i + 1 < json_array_size(list) ? " " : "");
        (void)putchar('\n');
    }
    licenses_show(json_object_get(plan, "licenses"));
    list = json_object_get(plan, "preempts");
    if (json_array_size(list)) {
        (void)printf("  %-8s", "preempts");
        json_array_foreach(list, i, item)(void)
            printf(" %lld", (long long)(json_is_object(item) ? fmt_i64(item, "job") : json_integer_value(item)));
        (void)putchar('\n');
    }
    json_array_foreach(json_object_get(plan, "warnings"), i, item) if (json_is_string(item))(void)
        printf("Warning  %s\n", json_string_value(item));
    shapes_show(json_object_get(plan, "alternatives"));
}
