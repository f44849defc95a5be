/* SPDX-License-Identifier: Apache-2.0 */
/* fmt.c - see fmt.h. */
#include "cli/fmt.h"

#include <stdio.h>
#include <string.h>
#include <time.h>

#include "wire/text/duration.h"

const char *fmt_text(json_t *json, const char *key)
{
    const char *text = json_string_value(json_object_get(json, key));

    return text ? text : "";
}

int64_t fmt_i64(json_t *json, const char *key)
{
    json_t *value = json_object_get(json, key);

    return json_is_real(value) ? (int64_t)json_real_value(value) : json_integer_value(value);
}

bool fmt_null(json_t *json, const char *key)
{
    json_t *value = json_object_get(json, key);

    return !value || json_is_null(value);
}

usec_t fmt_time(json_t *json, const char *key)
{
    const char *text = fmt_text(json, key);
    usec_t at = 0;

    return *text && instant_parse(text, strlen(text), &at) == 0 ? at : 0;
}

usec_t fmt_now(void)
{
    struct timespec now;

    (void)clock_gettime(CLOCK_REALTIME, &now);
    return now.tv_sec * USEC_SEC + now.tv_nsec / 1000;
}

bool fmt_when(const char *text, bool past, usec_t *ret_at)
{
    const char *plus = strncmp(text, "now", 3) == 0 ? text + 3 : text;
    size_t length = strlen(text);
    usec_t span;

    if (*plus == '\0' && plus != text) {
        *ret_at = fmt_now();
        return true;
    }
    if (*plus == '+' && duration_parse(plus + 1, strlen(plus + 1), &span) == 0) {
        *ret_at = fmt_now() + span;
        return true;
    }
    if (past && length && strchr("smhdw", text[length - 1]) && duration_parse(text, length, &span) == 0) {
        *ret_at = fmt_now() - span;
        return true;
    }
    return instant_parse(text, length, ret_at) == 0;
}

void fmt_query(char *text, size_t size, const char *name, usec_t at)
{
    size_t used = strlen(text);

    if (at)
        (void)snprintf(text + used, size - used, "&%s=%lld.%06lld", name, (long long)(at / USEC_SEC),
                       (long long)(at % USEC_SEC));
}

const char *fmt_seconds(int64_t seconds, char text[FMT_MAX])
{
    char days[24] = "";

    if (seconds < 0)
        seconds = 0;
    if (seconds >= 86400)
        (void)snprintf(days, sizeof(days), "%lld-", (long long)(seconds / 86400));
    (void)snprintf(text, FMT_MAX, "%s%02d:%02d:%02d", days, (int)(seconds / 3600 % 24), (int)(seconds / 60 % 60),
                   (int)(seconds % 60));
    return text;
}

const char *fmt_limit(int64_t seconds, char text[FMT_MAX])
{
    if (seconds <= 0)
        return "-";
    (void)fmt_seconds(seconds, text);
    if (seconds % 60 == 0 && seconds >= 86400) /* without days it would read as minutes and seconds */
        text[strlen(text) - 3] = '\0';
    return text;
}

static void local(usec_t at, struct tm *tm)
{
    time_t seconds = (time_t)(at / USEC_SEC);

    (void)localtime_r(&seconds, tm);
}

const char *fmt_clock(usec_t at, usec_t now, char text[FMT_MAX])
{
    struct tm tm;

    local(at, &tm);
    if (at < now + 20 * USEC_HOUR && at > now - 20 * USEC_HOUR)
        (void)strftime(text, FMT_MAX, "%H:%M", &tm);
    else
        (void)strftime(text, FMT_MAX, "%Y-%m-%d %H:%M", &tm);
    return text;
}

const char *fmt_stamp(usec_t at, char text[FMT_MAX])
{
    struct tm tm;

    if (at == 0)
        return "-";
    local(at, &tm);
    (void)strftime(text, FMT_MAX, "%Y-%m-%d %H:%M:%S", &tm);
    return text;
}

const char *fmt_gpus(json_t *job, char text[FMT_MAX])
{
    const char *type = fmt_text(job, "gpu_type");
    int64_t share = fmt_null(job, "gpu_share") ? 1000 : fmt_i64(job, "gpu_share");

    if (share < 1000)
        (void)snprintf(text, FMT_MAX, "%g%s%.60s", (double)share / 1000.0, *type ? " " : "", type);
    else
        (void)snprintf(text, FMT_MAX, "%lld%s%.60s", (long long)fmt_i64(job, "gpus"), *type ? " " : "", type);
    return text;
}

const char *fmt_promise(json_t *promise, char text[FMT_MAX])
{
    const char *state = fmt_text(promise, "state");
    char when[FMT_MAX], offer[FMT_MAX];

    (void)fmt_clock(fmt_time(promise, "deadline"), fmt_now(), when);
    if (strcmp(state, "promised") == 0)
        (void)snprintf(text, FMT_MAX, "%.40s, promised", when);
    else if (strcmp(state, "broken") == 0)
        (void)snprintf(text, FMT_MAX, "%.40s, promised, and will not be kept: %.100s", when,
                       fmt_text(promise, "message"));
    else if (fmt_time(promise, "offer"))
        (void)snprintf(text, FMT_MAX, "%.40s, not promised; %.40s could have been", when,
                       fmt_clock(fmt_time(promise, "offer"), fmt_now(), offer));
    else
        (void)snprintf(text, FMT_MAX, "%.40s, not promised", when);
    return text;
}

const char *fmt_licenses(json_t *job, char text[FMT_MAX])
{
    const char *name;
    json_t *count;
    size_t used = 0;

    (void)snprintf(text, FMT_MAX, "-");
    json_object_foreach(json_object_get(job, "licenses"), name, count)
    {
        int more = snprintf(text + used, FMT_MAX - used, "%s%s:%lld", used ? "," : "", name,
                            (long long)json_integer_value(count));

        if (more < 0 || (size_t)more >= FMT_MAX - used)
            break;
        used += (size_t)more;
    }
    return text;
}

const char *fmt_id(json_t *job, char text[FMT_MAX])
{
    json_t *array = json_object_get(job, "array");

    if (json_is_object(array))
        (void)snprintf(text, FMT_MAX, "%lld_%lld", (long long)fmt_i64(array, "id"), (long long)fmt_i64(array, "index"));
    else
        (void)snprintf(text, FMT_MAX, "%lld", (long long)fmt_i64(job, json_object_get(job, "id") ? "id" : "job"));
    return text;
}

const char *fmt_bytes(uint64_t bytes, char text[FMT_MAX])
{
    static const char letters[] = "BKMGTP";
    int step = 0;

    while (bytes >= 10240 && step < 5) {
        bytes /= 1024;
        step++;
    }
    (void)snprintf(text, FMT_MAX, "%llu%c", (unsigned long long)bytes, letters[step]);
    return text;
}

const char *fmt_progress(json_t *progress, char text[FMT_MAX])
{
    double step = json_number_value(json_object_get(progress, "step"));
    double total = json_number_value(json_object_get(progress, "total"));
    usec_t end = json_is_object(progress) ? fmt_time(progress, "end") : 0;
    char when[FMT_MAX];

    if (!json_is_object(progress) || json_is_null(json_object_get(progress, "step")))
        return "-";
    if (strcmp(fmt_text(progress, "state"), "stalled") == 0)
        (void)snprintf(text, FMT_MAX, "stalled at %.0f", step);
    else if (total > 0 && end)
        (void)snprintf(text, FMT_MAX, "%.0f%% ~%s", 100 * step / total, fmt_clock(end, fmt_now(), when));
    else if (total > 0)
        (void)snprintf(text, FMT_MAX, "%.0f%%", 100 * step / total);
    else
        (void)snprintf(text, FMT_MAX, "step %.0f", step);
    return text;
}
