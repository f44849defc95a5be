/* SPDX-License-Identifier: Apache-2.0 */
/* anomaly_out.c - what anomaly.c found, as a table, as JSON, and as a section of the HTML report. */
#include <errno.h>
#include <math.h>
#include <stdio.h>

#include "sim/metrics/anomaly.h"
#include "sim/output/output_text.h"
#include "wire/text/json_write.h"

static double mean(double sum, uint64_t count)
{
    return count ? sum / (double)count : 0;
}

static const char *row_name(const struct anomaly *a, const struct cluster_spec *cluster, size_t i)
{
    return i < a->count ? names_get(&cluster->names, cluster->vcs[i].name) : "all";
}

static void put_row(FILE *out, const char *name, const struct anomaly_row *row)
{
    char text[40];

    fprintf(out, "%-16s %6llu %8llu %8s", name, (unsigned long long)row->gpus, (unsigned long long)row->jobs,
            text_span(text, sizeof(text), mean(row->alone, row->jobs)));
    for (int k = 0; k < ANOMALY_KINDS; k++) {
        fprintf(out, " %9s", text_span(text, sizeof(text), mean(row->kinds[k].wait, row->jobs)));
        fprintf(out, " %7llu %8s", (unsigned long long)row->kinds[k].longer,
                row->kinds[k].longer ? text_span(text, sizeof(text), row->kinds[k].worst) : "-");
    }
    fputc('\n', out);
}

void anomaly_text(FILE *out, const struct anomaly *a, const struct cluster_spec *cluster)
{
    const struct anomaly_kind_row *all = &a->rows[a->count].kinds[ANOMALY_LENT];
    char text[40];

    fprintf(out, "%-16s %6s %8s %8s", "VC", "GPUS", "JOBS", "ALONE");
    for (int k = 0; k < ANOMALY_KINDS; k++)
        fprintf(out, " %9s %7s %8s",
                k == ANOMALY_QUOTA   ? "QUOTA"
                : k == ANOMALY_CELLS ? "CELLS"
                                     : "LENT",
                "LONGER", "WORST");
    fputc('\n', out);
    for (size_t i = 0; i <= a->count; i++)
        if (a->rows[i].jobs)
            put_row(out, row_name(a, cluster, i), &a->rows[i]);
    fprintf(out,
            "\nALONE, QUOTA, CELLS, LENT: mean waiting. LONGER: jobs that wait longer than alone; WORST: by how "
            "much at most.\nGPUs in use up to the last submission: alone %s",
            text_ratio(text, sizeof(text), a->use_alone));
    for (int k = 0; k < ANOMALY_KINDS; k++)
        fprintf(out, ", %s %s", anomaly_name((enum anomaly_kind)k), text_ratio(text, sizeof(text), a->use[k]));
    fputs("\nGPUs in use while somebody waits", out);
    for (int k = 0; k < ANOMALY_KINDS; k++)
        fprintf(out, "%c %s %s", k ? ',' : ':', anomaly_name((enum anomaly_kind)k),
                text_ratio(text, sizeof(text), a->use_waiting[k]));
    fputc('\n', out);
    if (all->longer)
        fprintf(
            out,
            "Of the %llu that wait longer where idle cells are lent to guaranteed jobs, %llu were stopped more often "
            "than alone when owners came, %llu were overtaken\n",
            (unsigned long long)all->longer, (unsigned long long)all->stopped,
            (unsigned long long)(all->longer - all->stopped));
    if (a->with_guests)
        fprintf(
            out,
            "Beside an opportunistic copy of every job: %llu of %llu guaranteed jobs wait longer than alone; GPUs in "
            "use %s\n",
            (unsigned long long)a->guests.longer, (unsigned long long)a->guests.jobs,
            text_ratio(text, sizeof(text), a->guests.use));
}

static void json_row(struct json_write *json, const char *name, const struct anomaly_row *row)
{
    json_write_object(json, NULL);
    json_write_text(json, "vc", name);
    json_write_u64(json, "gpus", row->gpus);
    json_write_u64(json, "jobs", row->jobs);
    json_write_double(json, "alone_wait_seconds", mean(row->alone, row->jobs));
    for (int k = 0; k < ANOMALY_KINDS; k++) {
        json_write_object(json, anomaly_name((enum anomaly_kind)k));
        json_write_double(json, "wait_seconds", mean(row->kinds[k].wait, row->jobs));
        json_write_u64(json, "longer", row->kinds[k].longer);
        json_write_u64(json, "stopped", row->kinds[k].stopped);
        json_write_double(json, "excess_seconds", row->kinds[k].excess);
        json_write_double(json, "worst_seconds", row->kinds[k].worst);
        json_write_close(json);
    }
    json_write_close(json);
}

int anomaly_json(struct buf *out, const struct anomaly *a, const struct cluster_spec *cluster)
{
    struct json_write json;

    json_write_init(&json, out, true);
    json_write_object(&json, NULL);
    json_write_text(&json, "apiVersion", "v1");
    json_write_text(&json, "kind", "SimAnomaly");
    json_write_object(&json, "gpu_use");
    json_write_double(&json, "alone", a->use_alone);
    for (int k = 0; k < ANOMALY_KINDS; k++)
        json_write_double(&json, anomaly_name((enum anomaly_kind)k), a->use[k]);
    json_write_close(&json);
    if (a->with_guests) {
        json_write_object(&json, "guests");
        json_write_u64(&json, "jobs", a->guests.jobs);
        json_write_u64(&json, "longer", a->guests.longer);
        json_write_double(&json, "wait_seconds", mean(a->guests.wait, a->guests.jobs));
        json_write_double(&json, "gpu_use", a->guests.use);
        json_write_close(&json);
    }
    json_write_object(&json, "gpu_use_while_waiting");
    for (int k = 0; k < ANOMALY_KINDS; k++)
        if (isnan(a->use_waiting[k]))
            json_write_null(&json, anomaly_name((enum anomaly_kind)k));
        else
            json_write_double(&json, anomaly_name((enum anomaly_kind)k), a->use_waiting[k]);
    json_write_close(&json);
    json_write_array(&json, "items");
    for (size_t i = 0; i < a->count; i++)
        if (a->rows[i].jobs)
            json_row(&json, row_name(a, cluster, i), &a->rows[i]);
    json_write_close(&json);
    json_write_array(&json, "all");
    json_row(&json, "all", &a->rows[a->count]);
    json_write_close(&json);
    json_write_close(&json);
    buf_printf(out, "\n");
    return out->error ? -ENOMEM : 0;
}

/* ---- the plot ---- */

enum { BAR = 14, GAP = 18, LEFT = 150, WIDE = 620, TOP = 30 };

/* Text that is nobody's markup. */
static void html(struct buf *out, const char *text)
{
    for (; *text; text++)
        switch (*text) {
        case '<':
            buf_printf(out, "&lt;");
            break;
        case '>':
            buf_printf(out, "&gt;");
            break;
        case '&':
            buf_printf(out, "&amp;");
            break;
        case '"':
            buf_printf(out, "&quot;");
            break;
        default:
            buf_printf(out, "%c", *text);
        }
}

/* Waiting spans decades; a bar's length is its logarithm, from a minute on. */
static double length_of(double seconds, double most)
{
    double low = log10(60), high = log10(fmax(most, 600));

    return seconds <= 60 ? 0 : fmax(0, (log10(seconds) - low) / (high - low)) * WIDE;
}

static void put_bar(struct buf *out, double y, double seconds, double most, int colour)
{
    char text[40];
    double length = length_of(seconds, most);

    buf_printf(out, "<rect x=\"%d\" y=\"%.1f\" width=\"%.1f\" height=\"%d\" fill=\"var(--c%d)\"/>", LEFT, y,
               fmax(length, 1), BAR - 2, colour);
    buf_printf(out, "<text x=\"%.1f\" y=\"%.1f\" font-size=\"11\" fill=\"currentColor\">%s</text>\n", LEFT + length + 5,
               y + BAR - 4, text_span(text, sizeof(text), seconds));
}

static void put_plot(struct buf *out, const struct anomaly *a, const struct cluster_spec *cluster)
{
    static const int colours[] = { 6, 1, 0, 2 };
    static const char *const legend[] = { "alone", "quotas only", "cells", "cells, idle ones lent" };
    double most = 0, y = TOP;
    size_t shown = 0;

    for (size_t i = 0; i < a->count; i++) {
        shown += a->rows[i].jobs > 0;
        most = fmax(most, mean(a->rows[i].alone, a->rows[i].jobs));
        for (int k = 0; k < ANOMALY_KINDS; k++)
            most = fmax(most, mean(a->rows[i].kinds[k].wait, a->rows[i].jobs));
    }
    buf_printf(out,
               "<svg viewBox=\"0 0 %d %zu\" role=\"img\" aria-label=\"Mean waiting of each virtual cluster\" "
               "style=\"width:100%%;max-width:60rem\">\n",
               LEFT + WIDE + 90, TOP + shown * (4 * BAR + GAP));
    for (int k = 0; k < 4; k++)
        buf_printf(out,
                   "<rect x=\"%d\" y=\"4\" width=\"12\" height=\"12\" fill=\"var(--c%d)\"/><text x=\"%d\" y=\"14\" "
                   "font-size=\"12\" fill=\"currentColor\">%s</text>\n",
                   LEFT + k * 150, colours[k], LEFT + k * 150 + 17, legend[k]);
    for (size_t i = 0; i < a->count; i++) {
        const struct anomaly_row *row = &a->rows[i];

        if (!row->jobs)
            continue;
        buf_printf(out, "<text x=\"%d\" y=\"%.1f\" text-anchor=\"end\" font-size=\"12\" fill=\"currentColor\">",
                   LEFT - 8, y + 2 * BAR + 3);
        html(out, row_name(a, cluster, i));
        buf_printf(out, "</text>\n");
        put_bar(out, y, mean(row->alone, row->jobs), most, colours[0]);
        for (int k = 0; k < ANOMALY_KINDS; k++)
            put_bar(out, y + (k + 1) * BAR, mean(row->kinds[k].wait, row->jobs), most, colours[k + 1]);
        y += 4 * BAR + GAP;
    }
    buf_printf(out, "</svg>\n");
}

static void put_html_row(struct buf *out, const char *name, const struct anomaly_row *row)
{
    char text[40];

    buf_printf(out, "<tr><th scope=\"row\">");
    html(out, name);
    buf_printf(out, "</th><td>%llu</td><td>%llu</td><td>%s</td>", (unsigned long long)row->gpus,
               (unsigned long long)row->jobs, text_span(text, sizeof(text), mean(row->alone, row->jobs)));
    for (int k = 0; k < ANOMALY_KINDS; k++) {
        buf_printf(out, "<td>%s</td>", text_span(text, sizeof(text), mean(row->kinds[k].wait, row->jobs)));
        buf_printf(out, "<td>%llu</td><td>%s</td>", (unsigned long long)row->kinds[k].longer,
                   row->kinds[k].longer ? text_span(text, sizeof(text), row->kinds[k].worst) : "&ndash;");
    }
    buf_printf(out, "</tr>\n");
}

int anomaly_html(struct buf *out, const struct anomaly *a, const struct cluster_spec *cluster)
{
    char text[40];

    buf_printf(out, "<section id=\"anomaly\">\n<h2>Shared, or a cluster of one's own?</h2>\n<p>Mean waiting of each "
                    "virtual cluster: alone on what it is guaranteed; in the shared cluster with the same GPUs as "
                    "quotas; with cells; with cells while idle ones are lent. Logarithmic from one minute on.</p>\n");
    put_plot(out, a, cluster);
    buf_printf(out, "<div class=\"scroll\" tabindex=\"0\" role=\"region\" aria-label=\"Waiting of each virtual "
                    "cluster\">\n<table class=\"numbers\">\n<thead><tr><th scope=\"col\">Virtual cluster</th><th "
                    "scope=\"col\">GPUs</th><th scope=\"col\">Jobs</th><th scope=\"col\">Alone</th>");
    for (int k = 0; k < ANOMALY_KINDS; k++)
        buf_printf(out, "<th scope=\"col\">%s</th><th scope=\"col\">Longer</th><th scope=\"col\">Worst</th>",
                   k == ANOMALY_QUOTA   ? "Quotas"
                   : k == ANOMALY_CELLS ? "Cells"
                                        : "Lent");
    buf_printf(out, "</tr></thead>\n<tbody>\n");
    for (size_t i = 0; i <= a->count; i++)
        if (a->rows[i].jobs)
            put_html_row(out, row_name(a, cluster, i), &a->rows[i]);
    buf_printf(out,
               "</tbody>\n</table>\n</div>\n<p class=\"hint\">Longer: jobs that wait longer than alone; worst: by "
               "how much at most. GPUs in use up to the last submission: alone %s",
               text_ratio(text, sizeof(text), a->use_alone));
    for (int k = 0; k < ANOMALY_KINDS; k++)
        buf_printf(out, ", %s %s", anomaly_name((enum anomaly_kind)k), text_ratio(text, sizeof(text), a->use[k]));
    buf_printf(out, ". While somebody waits");
    for (int k = 0; k < ANOMALY_KINDS; k++)
        buf_printf(out, "%c %s %s", k ? ',' : ':', anomaly_name((enum anomaly_kind)k),
                   text_ratio(text, sizeof(text), a->use_waiting[k]));
    if (a->with_guests)
        buf_printf(
            out,
            ". Beside an opportunistic copy of every job %llu of %llu guaranteed jobs wait longer than alone, and "
            "%s of the GPUs are in use",
            (unsigned long long)a->guests.longer, (unsigned long long)a->guests.jobs,
            text_ratio(text, sizeof(text), a->guests.use));
    buf_printf(out, ".</p>\n</section>\n");
    return out->error ? -ENOMEM : 0;
}
