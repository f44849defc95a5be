/* SPDX-License-Identifier: Apache-2.0 */
/* report.c - the page around the plots: headline, cards, tables, provenance. See report.h. */
#include "sim/output/report.h"

#include <errno.h>
#include <inttypes.h>
#include <math.h>
#include <string.h>

#include "model/cluster.h"
#include "model/trace.h"
#include "sim/output/output_text.h"
#include "sim/output/report_assets.h"

enum { RUNS_LISTED_MAX = 200, LABEL_SHORT = 28, VERDICTS_MAX = 6 };
#define PAGE_BYTES_MAX ((size_t)1 << 20) /* what of REPORT_BYTES_MAX is kept for the page itself */

const struct trace *report_trace(const struct report_input *input, const struct run_result *run)
{
    return run->trace ? run->trace : input->trace;
}

const struct cluster_spec *report_cluster(const struct report_input *input, const struct run_result *run)
{
    return run->cluster ? run->cluster : input->cluster;
}

static const char *value_of(const struct metric *metric, double value)
{
    static _Thread_local char text[4][40]; /* a line may name up to four values at once */
    static _Thread_local unsigned turn;

    turn = (turn + 1) % 4;
    return metric_text(metric, value, text[turn], sizeof(text[turn]));
}

static const char *count_of(uint64_t count)
{
    static const struct metric plain = { .kind = METRIC_COUNT };

    return value_of(&plain, (double)count);
}

static void put_head(FILE *out, const struct run_groups *groups)
{
    fputs("<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n"
          "<meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n"
          "<meta name=\"color-scheme\" content=\"light dark\">\n<meta name=\"generator\" content=\"muster\">\n"
          "<meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; style-src 'unsafe-inline'; "
          "script-src 'unsafe-inline'; img-src data:; base-uri 'none'; form-action 'none'\">\n<title>",
          out);
    for (size_t i = 0; i < groups->count && i < 4; i++) {
        fputs(i ? ", " : "", out);
        text_html(out, groups->items[i].label);
    }
    fputs(groups->count > 4 ? ", &hellip;" : "", out);
    fputs(" &ndash; muster report</title>\n<style>\n", out);
    fwrite(asset_report_css, 1, asset_report_css_size, out);
    fputs("</style>\n</head>\n<body>\n", out);
}

static void put_title(FILE *out, const struct run_groups *groups)
{
    if (groups->count > 4) {
        bool policies = true; /* they differ in nothing else */

        for (size_t i = 0; i < groups->count; i++)
            policies &= strcmp(groups->items[i].label, groups->items[i].runs[0]->policy) == 0;
        fprintf(out, "%zu %s compared", groups->count, policies ? "policies" : "runs");
        return;
    }
    for (size_t i = 0; i < groups->count; i++) {
        fputs(i == 0 ? "" : i + 1 == groups->count ? " and " : ", ", out);
        text_html(out, groups->items[i].label);
    }
    fputs(groups->count > 1 ? " compared" : " on ", out);
    if (groups->count == 1)
        text_html(out, groups->items[0].runs[0]->trace_name);
}

/* One sentence a busy reader takes along: the runs whose base is `base`. */
static void put_verdict(FILE *out, const struct run_groups *groups, size_t base)
{
    const struct metric *jct = &metrics_list[0];
    size_t best = groups_best(groups, jct, base);
    double first = group_spread(&groups->items[base], jct).mean, value;
    struct spread speedup;

    if (groups->traces) {
        text_html(out, groups->items[base].runs[0]->trace_name);
        fputs(": ", out);
    }
    if (isnan(first)) { /* nothing to measure the others by */
        text_html(out, groups->items[base].label);
        fputs(" finished no job.", out);
        return;
    }
    if (best == groups->count) {
        fprintf(out, "%s finish the average job equally soon (%s).", groups->traces ? "all" : "All",
                value_of(jct, first));
        return;
    }
    if (best == base) {
        fputs(groups->traces ? "no" : "No", out);
        fputs(" other finishes the average job sooner than <strong>", out);
        text_html(out, groups->items[base].label);
        fprintf(out, "</strong> (%s).", value_of(jct, first));
        return;
    }
    value = group_spread(&groups->items[best], jct).mean;
    fputs("<strong>", out);
    text_html(out, groups->items[best].label);
    speedup = group_speedup(&groups->items[base], &groups->items[best]);
    fprintf(out, "</strong> finishes the average job <strong>%.2f times</strong> as fast as ", speedup.mean);
    text_html(out, groups->items[base].label);
    if (speedup.max - speedup.min >= 0.005)
        fprintf(out, " (%.2f to %.2f, seed by seed)", speedup.min, speedup.max);
    fprintf(out, ": in %s instead of %s.", value_of(jct, value), value_of(jct, first));
}

static void put_verdicts(FILE *out, const struct run_groups *groups)
{
    const struct metric *jct = &metrics_list[0];
    size_t said = 0;

    fputs("<p class=\"verdict\">", out);
    if (groups->count == 1 && isnan(group_spread(&groups->items[0], jct).mean)) {
        fputs("No job was finished.", out);
    } else if (groups->count == 1) {
        fprintf(out, "The average job took <strong>%s</strong> from submission to end; ",
                value_of(jct, group_spread(&groups->items[0], jct).mean));
        fprintf(out, "%s of that was waiting.", value_of(jct, groups->items[0].runs[0]->summary.avg_queue));
    }
    for (size_t i = 0; i < groups->count && groups->count > 1 && said < VERDICTS_MAX; i++)
        if (groups->items[i].base == i) {
            fputs(said++ ? "<br>" : "", out);
            put_verdict(out, groups, i);
        }
    if (groups_unequal(groups))
        fputs(" Not all finished the same number of jobs, so means are over different jobs.", out);
    fputs("</p>\n", out);
}

static void put_banner(FILE *out, const struct run_groups *groups)
{
    const struct run_result *run = groups->items[0].runs[0];
    size_t seeds = groups->items[0].count;

    fputs("<header class=\"banner\">\n<p class=\"eyebrow\">muster simulation report</p>\n<h1>", out);
    put_title(out, groups);
    fputs("</h1>\n", out);
    put_verdicts(out, groups);
    fputs("<p class=\"facts\"><span>", out);
    if (groups->traces) {
        fputs("several traces", out);
    } else {
        text_html(out, run->trace_name);
        fprintf(out, "</span><span>%s jobs", count_of(run->summary.jobs));
    }
    if (groups->clusters) {
        fputs("</span><span>several clusters", out);
    } else {
        fprintf(out, "</span><span>%s GPUs in %s nodes (", count_of(run->gpu_count), count_of(run->node_count));
        text_html(out, run->cluster_name);
        fputc(')', out);
    }
    fputs("</span>", out);
    if (groups->seeds)
        fprintf(out, "<span>up to %zu seeds each: numbers are means, plots show the first seed</span>", seeds);
    else
        fprintf(out, "<span>seed %" PRIu64 "</span>", run->seed);
    fputs("</p>\n<button id=\"theme\" type=\"button\" hidden>Dark</button>\n</header>\n<main>\n", out);
}

/* A title inside a sentence: "Average JCT" loses its capital, "GPU utilization" keeps it. */
static void put_lower(FILE *out, const char *before, const char *title)
{
    bool word = title[0] >= 'A' && title[0] <= 'Z' && title[1] >= 'a' && title[1] <= 'z';

    fprintf(out, "%s%c%s", before, word ? title[0] - 'A' + 'a' : title[0], title + 1);
}

/* A card: the best of all, or the value of the only one. */
static void put_card(FILE *out, const struct run_groups *groups, const struct metric *metric)
{
    size_t best = groups_best(groups, metric, 0);
    double first = group_spread(&groups->items[0], metric).mean, value;

    if (isnan(first))
        return;
    value = best < groups->count ? group_spread(&groups->items[best], metric).mean : first;
    fputs("<div class=\"card\"><h3>", out);
    if (best < groups->count)
        put_lower(out, metric->better == BETTER_LESS ? "Lowest " : "Highest ", metric->title);
    else
        fputs(metric->title, out);
    fprintf(out, "</h3><p class=\"value\">%s</p><p class=\"note\">", value_of(metric, value));
    if (groups->count == 1) {
        fputs(metric->help, out);
    } else if (best == groups->count) {
        fputs("the same for all", out);
    } else {
        fputs("with <strong>", out);
        text_html(out, groups->items[best].label);
        fputs("</strong>", out);
        if (best > 0) {
            fprintf(out, "; %s with ", value_of(metric, first));
            text_html(out, groups->items[0].label);
        }
    }
    fputs("</p></div>\n", out);
}

static void put_cards(FILE *out, const struct run_groups *groups)
{
    static const char *const shown[] = { "AVG-JCT", "P95-JCT", "AVG-QUEUE", "UTIL", "MAKESPAN", "MISSED" };

    if (groups->traces) /* the best of all traces is the easiest trace */
        return;
    fputs("<section class=\"cards\" aria-label=\"Headline numbers\">\n", out);
    for (size_t i = 0; i < sizeof(shown) / sizeof(shown[0]); i++)
        for (const struct metric *metric = metrics_list; metric->name; metric++)
            if (strcmp(metric->name, shown[i]) == 0)
                put_card(out, groups, metric);
    fputs("</section>\n", out);
}

/* Columns that say nothing for any run are left out: deadlines nobody has, migrations nobody made. */
static bool metric_shown(const struct run_groups *groups, const struct metric *metric)
{
    for (size_t i = 0; i < groups->count; i++) {
        double max = group_spread(&groups->items[i], metric).max;

        if (max > 0 || (max == 0 && metric->better != BETTER_NONE))
            return true;
    }
    return false;
}

static void put_cell(FILE *out, const struct run_groups *groups, size_t index, const struct metric *metric)
{
    const struct run_group *group = &groups->items[index];
    struct spread spread = group_spread(group, metric);
    bool best = groups_is_best(groups, metric, index);

    if (isnan(spread.mean)) {
        fputs("<td>-</td>", out);
        return;
    }
    fputs(best ? "<td class=\"best\" title=\"" : "<td title=\"", out);
    text_real(out, spread.mean);
    fputs(metric->kind == METRIC_SPAN ? " seconds\">" : "\">", out);
    fputs(value_of(metric, spread.mean), out);
    if (best)
        fputs(" <span class=\"pill\">best</span>", out);
    if (strcmp(value_of(metric, spread.min), value_of(metric, spread.max)) != 0)
        fprintf(out, "<span class=\"range\">%s &ndash; %s</span>", value_of(metric, spread.min),
                value_of(metric, spread.max));
    fputs("</td>", out);
}

static void put_table_row(FILE *out, const struct run_groups *groups, size_t index)
{
    const struct run_group *group = &groups->items[index];
    const struct summary *summary = &group->runs[0]->summary;
    struct spread speedup = group_speedup(&groups->items[group->base], group);

    fprintf(out, "<tr><th scope=\"row\"><span class=\"%s\"><span class=\"key\" data-run=\"%zu\"></span>",
            strlen(group->label) <= LABEL_SHORT ? "whole" : "", index);
    text_html(out, group->label);
    fputs("</span>", out);
    if (group->count > 1)
        fprintf(out, "<span class=\"range\">%zu seeds</span>", group->count);
    fprintf(out, "</th><td>%s", count_of(summary->finished));
    if (summary->finished != summary->jobs)
        fprintf(out, "<span class=\"range\">of %s</span>", count_of(summary->jobs));
    fputs("</td>", out);
    for (const struct metric *metric = metrics_list; metric->name; metric++)
        if (metric_shown(groups, metric))
            put_cell(out, groups, index, metric);
    if (groups->count > 1) {
        if (isnan(speedup.mean))
            fputs("<td>-</td>", out);
        else
            fprintf(out, "<td>%.2f&times;", speedup.mean);
        if (speedup.max - speedup.min >= 0.005)
            fprintf(out, "<span class=\"range\">%.2f &ndash; %.2f</span>", speedup.min, speedup.max);
        fputs("</td>", out);
    }
    fputs("</tr>\n", out);
}

static void put_table(FILE *out, const struct run_groups *groups)
{
    fputs("<section id=\"numbers\">\n<h2>Numbers</h2>\n<div class=\"scroll\" tabindex=\"0\" role=\"region\" "
          "aria-label=\"Numbers of each run\">\n<table class=\"numbers\">\n<thead><tr><th scope=\"col\">Run</th>"
          "<th scope=\"col\" title=\"Jobs that ran to their end.\">Finished</th>",
          out);
    for (const struct metric *metric = metrics_list; metric->name; metric++)
        if (metric_shown(groups, metric))
            fprintf(out, "<th scope=\"col\" title=\"%s\">%s%s</th>", metric->help, metric->title,
                    metric->better == BETTER_LESS   ? "&nbsp;<span class=\"dir\">&darr;</span>"
                    : metric->better == BETTER_MORE ? "&nbsp;<span class=\"dir\">&uarr;</span>"
                                                    : "");
    fputs(groups->count > 1
              ? "<th scope=\"col\" title=\"Average JCT of the first run of the same trace, divided by this one's.\">"
                "Speedup</th>"
              : "",
          out);
    fputs("</tr></thead>\n<tbody>\n", out);
    for (size_t i = 0; i < groups->count; i++)
        put_table_row(out, groups, i);
    fputs("</tbody>\n</table>\n</div>\n<p class=\"hint\">JCT is the time from submission to end. &darr; less is "
          "better, &uarr; more is better. Hover a number for its exact value.</p>\n</section>\n",
          out);
}

/* The command that gives this run again. */
static void put_command(FILE *out, const struct run_result *run)
{
    char word[sizeof(run->settings)];
    const char *at = run->settings;

    fputs("<code>muster sim run --cluster ", out);
    text_html_shell(out, run->cluster_name);
    fputs(" --trace ", out);
    text_html_shell(out, run->trace_name);
    fputs(" --policy ", out);
    text_html_shell(out, run->policy);
    while (*(at += strspn(at, " "))) {
        size_t length = strcspn(at, " ");

        memcpy(word, at, length);
        word[length] = 0;
        fputs(" --set ", out);
        text_html_shell(out, word);
        at += length;
    }
    fprintf(out, " --seed %" PRIu64 "</code>", run->seed);
}

static void put_provenance_row(FILE *out, const struct run_group *group, const struct run_result *run)
{
    const struct summary *summary = &run->summary;
    char wall[40], rate[40];

    fputs("<tr><th scope=\"row\">", out);
    text_html(out, group->label);
    fprintf(out, "</th><td>%" PRIu64 "</td><td><code>%016" PRIx64 "</code></td><td>%s</td>", run->seed, summary->digest,
            count_of(summary->decisions));
    fprintf(out, "<td>%s</td><td>%s</td><td class=\"text\">", text_span(wall, sizeof(wall), summary->wall_seconds),
            text_count(rate, sizeof(rate), (uint64_t)llround(fmax(0, fmin(1e18, summary->decisions_per_second)))));
    put_command(out, run);
    fputs("</td></tr>\n", out);
}

static void put_provenance(FILE *out, const struct run_groups *groups)
{
    size_t listed = 0, all = 0;

    fputs("<section id=\"provenance\">\n<h2>Where this comes from</h2>\n<div class=\"scroll\" tabindex=\"0\" "
          "role=\"region\" aria-label=\"Command, seed and digest of each run\">\n<table class=\"provenance\">\n<thead>"
          "<tr><th scope=\"col\">Run</th><th scope=\"col\">Seed</th><th scope=\"col\">Digest</th><th scope=\"col\">"
          "Decisions</th><th scope=\"col\">Took</th><th scope=\"col\">Decisions/s</th><th scope=\"col\" "
          "class=\"text\">Again</th></tr></thead>\n<tbody>\n",
          out);
    for (size_t i = 0; i < groups->count; i++)
        for (size_t k = 0; k < groups->items[i].count; k++, all++)
            if (listed < RUNS_LISTED_MAX) {
                put_provenance_row(out, &groups->items[i], groups->items[i].runs[k]);
                listed++;
            }
    fputs("</tbody>\n</table>\n</div>\n", out);
    if (listed < all)
        fprintf(out, "<p class=\"hint\">%zu more runs are not listed.</p>\n", all - listed);
    fputs("<p class=\"hint\">The same command gives the same digest, decision by decision.</p>\n<h3>What the numbers "
          "mean</h3>\n<dl>\n",
          out);
    for (const struct metric *metric = metrics_list; metric->name; metric++)
        fprintf(out, "<div><dt>%s</dt><dd>%s</dd></div>\n", metric->title, metric->help);
    fputs("</dl>\n</section>\n", out);
}

/* From all there is to draw down to what always fits. */
static const struct report_detail details[] = { { 24, true }, { 24, false }, { 8, false }, { 1, false } };

/* The size of the data on the page, where text_script_json() writes six bytes for some. */
static size_t escaped_size(const struct buf *data)
{
    size_t size = data->size;

    for (size_t i = 0; i < data->size; i++)
        if (data->data[i] == '<' || data->data[i] == '>' || data->data[i] == '&')
            size += 5;
    return size;
}

static int fill_data(struct buf *data, const struct report_input *input)
{
    int r = -E2BIG;

    for (size_t i = 0; i < sizeof(details) / sizeof(details[0]) && r == -E2BIG; i++) {
        buf_clear(data);
        r = report_data(data, input, &details[i]);
        if (r == 0 && escaped_size(data) > data->max)
            r = -E2BIG;
    }
    return r;
}

int report_write(FILE *out, const struct run_result *const *runs, size_t count, const struct trace *trace,
                 const struct cluster_spec *cluster, struct error *err)
{
    return report_write_with(out, runs, count, &(struct report_more){ .trace = trace, .cluster = cluster }, err);
}

int report_write_with(FILE *out, const struct run_result *const *runs, size_t count, const struct report_more *more,
                      struct error *err)
{
    CLEANUP_BUF struct buf data = BUF_INIT(REPORT_BYTES_MAX - PAGE_BYTES_MAX);
    __attribute__((cleanup(run_groups_done))) struct run_groups groups = { 0 };
    struct report_input input = { .groups = &groups, .trace = more->trace, .cluster = more->cluster };
    int r;

    if (!count)
        return error_set(err, -EINVAL, "a report needs at least one run");
    r = run_groups_init(&groups, runs, count);
    if (r == 0)
        r = fill_data(&data, &input);
    if (r < 0)
        return error_set(err, r, r == -E2BIG ? "too many runs for one report" : "out of memory");
    put_head(out, &groups);
    put_banner(out, &groups);
    put_cards(out, &groups);
    put_table(out, &groups);
    if (more->section)
        (void)fwrite(more->section->data, 1, more->section->size, out);
    fputs("<noscript><p class=\"hint\">The plots need JavaScript; all numbers are in the tables.</p></noscript>\n"
          "<div id=\"plots\"></div>\n",
          out);
    put_provenance(out, &groups);
    fputs("</main>\n<script type=\"application/json\" id=\"data\">", out);
    text_script_json(out, data.data, data.size);
    fputs("</script>\n<script>\n", out);
    fwrite(asset_plot_js, 1, asset_plot_js_size, out);
    fwrite(asset_gantt_js, 1, asset_gantt_js_size, out);
    fwrite(asset_report_js, 1, asset_report_js_size, out);
    fputs("</script>\n</body>\n</html>\n", out);
    return 0;
}
