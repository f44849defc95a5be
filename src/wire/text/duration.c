/* SPDX-License-Identifier: Apache-2.0 */
/* duration.c - see duration.h. */
#include "wire/text/duration.h"

#include <ctype.h>
#include <errno.h>
#include <signal.h>
#include <stdbool.h>
#include <string.h>
#include <strings.h>

#include "wire/text/decimal.h"

#define SPAN_MAX (36525 * USEC_DAY)

static bool all_digits(const char *text, size_t length)
{
    for (size_t i = 0; i < length; i++)
        if (!isdigit((unsigned char)text[i]))
            return false;
    return length > 0;
}

/* Fields between colons, at most three, digits each. Returns how many. */
static int clock_fields(const char *text, size_t length, int64_t fields[3])
{
    int count = 0;

    for (size_t at = 0; at <= length;) {
        const char *colon = memchr(text + at, ':', length - at);
        size_t end = colon ? (size_t)(colon - text) : length;

        if (count == 3 || end - at > 9 || !all_digits(text + at, end - at) ||
            decimal_parse_i64(text + at, end - at, &fields[count]) < 0)
            return -EINVAL;
        count++;
        at = end + 1;
    }
    return count;
}

/* What follows the days counts hours first; without days a bare number is minutes. */
static int clock_parse(const char *text, size_t length, usec_t *ret_span)
{
    static const usec_t after_days[3] = { USEC_HOUR, USEC_MIN, USEC_SEC };
    const char *dash = memchr(text, '-', length);
    int64_t days = 0, fields[3] = { 0 };
    usec_t span;
    int count, first;

    if (dash) {
        size_t head = (size_t)(dash - text);

        if (head > 6 || !all_digits(text, head) || decimal_parse_i64(text, head, &days) < 0)
            return -EINVAL;
        text = dash + 1;
        length -= head + 1;
    }
    count = clock_fields(text, length, fields);
    if (count < 0)
        return -EINVAL;
    first = dash || count == 3 ? 0 : 1; /* MM and MM:SS, as Slurm has it */
    span = days * USEC_DAY;
    for (int i = 0; i < count; i++)
        span += fields[i] * after_days[first + i];
    if (days > 36525 || span > SPAN_MAX)
        return -ERANGE;
    *ret_span = span;
    return 0;
}

static usec_t unit_of(const char *text, size_t length)
{
    static const struct {
        const char *name;
        usec_t unit;
    } units[] = { { "us", 1 },       { "ms", USEC_MSEC },  { "s", USEC_SEC },    { "sec", USEC_SEC },
                  { "m", USEC_MIN }, { "min", USEC_MIN },  { "h", USEC_HOUR },   { "hours", USEC_HOUR },
                  { "d", USEC_DAY }, { "days", USEC_DAY }, { "w", 7 * USEC_DAY } };

    for (size_t i = 0; i < sizeof(units) / sizeof(units[0]); i++)
        if (strlen(units[i].name) == length && strncasecmp(units[i].name, text, length) == 0)
            return units[i].unit;
    return 0;
}

static int units_parse(const char *text, size_t length, usec_t *ret_span)
{
    usec_t span = 0;

    for (size_t at = 0; at < length;) {
        size_t number = at, letters;
        int64_t part;
        usec_t unit;

        while (number < length && (isdigit((unsigned char)text[number]) || text[number] == '.'))
            number++;
        letters = number;
        while (letters < length && isalpha((unsigned char)text[letters]))
            letters++;
        unit = unit_of(text + number, letters - number);
        if (unit == 0 || number == at || decimal_parse(text + at, number - at, unit, &part) < 0)
            return -EINVAL;
        if (part > SPAN_MAX || __builtin_add_overflow(span, part, &span) || span > SPAN_MAX)
            return -ERANGE;
        at = letters;
    }
    *ret_span = span;
    return length ? 0 : -EINVAL;
}

int duration_parse(const char *text, size_t length, usec_t *ret_span)
{
    for (size_t i = 0; i < length; i++)
        if (isalpha((unsigned char)text[i]))
            return units_parse(text, length, ret_span);
    return clock_parse(text, length, ret_span);
}

void duration_put(struct buf *out, usec_t span)
{
    decimal_put(out, span, USEC_SEC);
    buf_char(out, 's');
}

void duration_put_clock(struct buf *out, usec_t span)
{
    int64_t seconds = span / USEC_SEC;

    if (seconds >= 86400)
        buf_printf(out, "%lld-", (long long)(seconds / 86400));
    buf_printf(out, "%02d:%02d:%02d", (int)(seconds / 3600 % 24), (int)(seconds / 60 % 60), (int)(seconds % 60));
}

/* Days since 1970 of a date of the Gregorian calendar; years from March on make leap days the last of them. */
static int64_t days_of(int64_t year, int64_t month, int64_t day)
{
    int64_t era, of_era;

    year -= month <= 2;
    era = year / 400;
    of_era = year - era * 400;
    return era * 146097 + of_era * 365 + of_era / 4 - of_era / 100 + (153 * (month + (month > 2 ? -3 : 9)) + 2) / 5 +
           day - 1 - 719468;
}

/* `width` digits at *at, between low and high. */
static bool number_take(const char **at, const char *end, int width, int64_t low, int64_t high, int64_t *ret)
{
    if (end - *at < width || !all_digits(*at, (size_t)width))
        return false;
    (void)decimal_parse_i64(*at, (size_t)width, ret);
    *at += width;
    return *ret >= low && *ret <= high;
}

static bool char_take(const char **at, const char *end, char c)
{
    if (*at == end || **at != c)
        return false;
    ++*at;
    return true;
}

/* "12:00[:00[.000001]][Z|+01:00]" in microseconds of the day, the zone taken off. */
static bool day_time_parse(const char *at, const char *end, int64_t *ret)
{
    int64_t hour, minute, second = 0, fraction = 0, zone_hour = 0, zone_minute = 0;
    int sign = 0;

    if (!number_take(&at, end, 2, 0, 23, &hour) || !char_take(&at, end, ':') ||
        !number_take(&at, end, 2, 0, 59, &minute))
        return false;
    if (char_take(&at, end, ':')) {
        const char *point;

        if (!number_take(&at, end, 2, 0, 60, &second))
            return false;
        point = at;
        if (char_take(&at, end, '.')) {
            while (at < end && isdigit((unsigned char)*at))
                at++;
            if (at - point < 2 || at - point > 7 || decimal_parse(point, (size_t)(at - point), USEC_SEC, &fraction) < 0)
                return false;
        }
    }
    if (at < end && (*at == '+' || *at == '-')) {
        sign = *at++ == '+' ? 1 : -1;
        if (!number_take(&at, end, 2, 0, 23, &zone_hour) || !char_take(&at, end, ':') ||
            !number_take(&at, end, 2, 0, 59, &zone_minute))
            return false;
    } else {
        (void)char_take(&at, end, 'Z');
    }
    *ret = hour * USEC_HOUR + minute * USEC_MIN + second * USEC_SEC + fraction -
           sign * (zone_hour * USEC_HOUR + zone_minute * USEC_MIN);
    return at == end;
}

int instant_parse(const char *text, size_t length, usec_t *ret_at)
{
    const char *at = text, *end = text + length;
    int64_t year, month, day, of_day = 0;

    if (memchr(text, '-', length) == NULL) {
        if (length == 0 || !isdigit((unsigned char)*text))
            return -EINVAL;
        return decimal_parse(text, length, USEC_SEC, ret_at) < 0 || *ret_at < 0 ? -EINVAL : 0;
    }
    if (!number_take(&at, end, 4, 1970, 9999, &year) || !char_take(&at, end, '-') ||
        !number_take(&at, end, 2, 1, 12, &month) || !char_take(&at, end, '-') || !number_take(&at, end, 2, 1, 31, &day))
        return -EINVAL;
    if (at < end && !((*at == 'T' || *at == ' ') && day_time_parse(at + 1, end, &of_day)))
        return -EINVAL;
    of_day += days_of(year, month, day) * USEC_DAY;
    if (of_day < 0)
        return -EINVAL;
    *ret_at = of_day;
    return 0;
}

static void digits_put(char *text, int count, int64_t value)
{
    for (; count-- > 0; value /= 10)
        text[count] = (char)('0' + value % 10);
}

const char *instant_text(char text[INSTANT_CHARS + 1], usec_t at)
{
    int64_t days = at / USEC_DAY, rest = at % USEC_DAY, era, of_era, of_year, year, month;

    if (rest < 0) {
        rest += USEC_DAY;
        days--;
    }
    memcpy(text, "0000-00-00T00:00:00.000000Z", INSTANT_CHARS + 1);
    days += 719468;
    era = days / 146097;
    days -= era * 146097;
    of_era = (days - days / 1460 + days / 36524 - days / 146096) / 365;
    of_year = days - (365 * of_era + of_era / 4 - of_era / 100);
    month = (5 * of_year + 2) / 153;
    year = of_era + era * 400 + (month >= 10);
    digits_put(text, 4, year);
    digits_put(text + 5, 2, month < 10 ? month + 3 : month - 9);
    digits_put(text + 8, 2, of_year - (153 * month + 2) / 5 + 1);
    digits_put(text + 11, 2, rest / USEC_HOUR);
    digits_put(text + 14, 2, rest / USEC_MIN % 60);
    digits_put(text + 17, 2, rest / USEC_SEC % 60);
    digits_put(text + 20, 6, rest % USEC_SEC);
    return text;
}

void instant_put(struct buf *out, usec_t at)
{
    char text[INSTANT_CHARS + 1];

    buf_put(out, instant_text(text, at), INSTANT_CHARS);
}

int size_parse_bytes(const char *text, size_t length, uint64_t *ret_bytes)
{
    static const char letters[] = "KMGTP";
    int64_t scale = 1 << 20, value;
    const char *letter;

    if (length > 2 && text[length - 1] == 'B' && text[length - 2] == 'i') {
        length -= 2;
    } else if (length > 1 && text[length - 1] == 'B') {
        length--;
        scale = 1;
    }
    letter = length ? strchr(letters, toupper((unsigned char)text[length - 1])) : NULL;
    if (letter && *letter) {
        scale = (int64_t)1 << (10 * (letter - letters + 1));
        length--;
    }
    if (length == 0 || !(isdigit((unsigned char)*text) || *text == '.') ||
        decimal_parse(text, length, scale, &value) < 0 || value < 0)
        return -EINVAL;
    *ret_bytes = (uint64_t)value;
    return 0;
}

void size_put_bytes(struct buf *out, uint64_t bytes)
{
    static const char letters[] = "BKMGTP";
    int step = 0;

    while (bytes && bytes % 1024 == 0 && step < 5) {
        bytes /= 1024;
        step++;
    }
    buf_printf(out, "%llu%c", (unsigned long long)bytes, letters[step]);
}

static const struct {
    const char *name;
    int number;
} signals[] = {
    { "HUP", SIGHUP },   { "INT", SIGINT },   { "QUIT", SIGQUIT }, { "ILL", SIGILL },   { "ABRT", SIGABRT },
    { "FPE", SIGFPE },   { "BUS", SIGBUS },   { "KILL", SIGKILL }, { "USR1", SIGUSR1 }, { "SEGV", SIGSEGV },
    { "USR2", SIGUSR2 }, { "PIPE", SIGPIPE }, { "ALRM", SIGALRM }, { "TERM", SIGTERM }, { "CONT", SIGCONT },
    { "STOP", SIGSTOP }, { "TSTP", SIGTSTP }, { "XCPU", SIGXCPU }, { "XFSZ", SIGXFSZ },
};

int signal_parse(const char *text, size_t length, int *ret_signal)
{
    int64_t number;

    if (all_digits(text, length)) {
        if (decimal_parse_i64(text, length, &number) < 0 || number < 1 || number > 64)
            return -EINVAL;
        *ret_signal = (int)number;
        return 0;
    }
    if (length > 3 && strncasecmp(text, "SIG", 3) == 0) {
        text += 3;
        length -= 3;
    }
    for (size_t i = 0; i < sizeof(signals) / sizeof(signals[0]); i++) {
        if (strlen(signals[i].name) == length && strncasecmp(signals[i].name, text, length) == 0) {
            *ret_signal = signals[i].number;
            return 0;
        }
    }
    return -EINVAL;
}

const char *signal_text(int number)
{
    for (size_t i = 0; i < sizeof(signals) / sizeof(signals[0]); i++)
        if (signals[i].number == number)
            return signals[i].name;
    return NULL;
}
