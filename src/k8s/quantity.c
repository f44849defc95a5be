/* SPDX-License-Identifier: Apache-2.0 */
/* quantity.c - see quantity.h. */
#include "k8s/quantity.h"

#include <ctype.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "base/units.h"
#include "wire/text/decimal.h"

struct suffix {
    const char *text;
    int64_t scale; /* thousandths of one */
};

static const struct suffix suffixes[] = {
    { "", 1000 },
    { "m", 1 },
    { "k", 1000000 },
    { "M", 1000000000 },
    { "G", 1000000000000 },
    { "T", 1000000000000000 },
    { "P", 1000000000000000000 },
    { "Ki", (int64_t)1000 << 10 },
    { "Mi", (int64_t)1000 << 20 },
    { "Gi", (int64_t)1000 << 30 },
    { "Ti", (int64_t)1000 << 40 },
    { "Pi", (int64_t)1000 << 50 },
};

int quantity_parse(const char *text, int64_t *ret_milli)
{
    size_t length = strspn(text, "0123456789.+");
    int64_t value;
    int r;

    /* An exponent has digits behind it; the suffix E, of exabytes, has not. */
    if ((text[length] == 'e' || text[length] == 'E') && strpbrk(text + length, "0123456789"))
        length += strlen(text + length);
    if (length == 0)
        return -EINVAL;
    if (strcmp(text + length, "u") == 0 || strcmp(text + length, "n") == 0) {
        r = decimal_parse(text, length, 1, &value);
        if (r == 0) { /* rounded up to thousandths */
            int64_t unit = text[length] == 'u' ? 1000 : 1000000;

            *ret_milli = value / unit + (value % unit != 0);
        }
        return r == 0 && value < 0 ? -EINVAL : r == -ERANGE ? -EINVAL : r;
    }
    for (size_t i = 0; i < sizeof(suffixes) / sizeof(suffixes[0]); i++) {
        if (strcmp(text + length, suffixes[i].text) != 0)
            continue;
        r = decimal_parse(text, length, suffixes[i].scale, &value);
        if (r == -ERANGE)
            value = INT64_MAX;
        else if (r < 0 || value < 0)
            return -EINVAL;
        *ret_milli = value;
        return 0;
    }
    if (strcmp(text + length, "E") == 0 || strcmp(text + length, "Ei") == 0) {
        r = decimal_parse(text, length, 1, &value);
        if (r < 0 || value < 0)
            return -EINVAL;
        *ret_milli = value ? INT64_MAX : 0;
        return 0;
    }
    return -EINVAL;
}

int time_parse(const char *text, int64_t *ret_usec)
{
    struct tm tm = { 0 };
    int year, month, used = 0;
    int64_t fraction = 0, scale = 100000;

    if (sscanf(text, "%4d-%2d-%2dT%2d:%2d:%2d%n", &year, &month, &tm.tm_mday, &tm.tm_hour, &tm.tm_min, &tm.tm_sec,
               &used) != 6 ||
        used != 19)
        return -EINVAL;
    if (year < 1970 || year > 9999 || month < 1 || month > 12 || tm.tm_mday < 1 || tm.tm_mday > 31 || tm.tm_hour < 0 ||
        tm.tm_hour > 23 || tm.tm_min < 0 || tm.tm_min > 59 || tm.tm_sec < 0 || tm.tm_sec > 60)
        return -EINVAL;
    text += used;
    if (*text == '.')
        for (text++; isdigit((unsigned char)*text); text++, scale /= 10)
            fraction += (*text - '0') * scale;
    if (strcmp(text, "Z") != 0)
        return -EINVAL;
    tm.tm_year = year - 1900;
    tm.tm_mon = month - 1;
    *ret_usec = (int64_t)timegm(&tm) * USEC_SEC + fraction;
    return 0;
}

void time_print(int64_t usec, char text[TIME_TEXT_MAX])
{
    time_t seconds = (time_t)(usec / USEC_SEC);
    char day[32] = "1970-01-01T00:00:00";
    struct tm tm;

    if (gmtime_r(&seconds, &tm))
        (void)strftime(day, sizeof(day), "%Y-%m-%dT%H:%M:%S", &tm);
    (void)snprintf(text, TIME_TEXT_MAX, "%.20s.%06dZ", day, (int)(usec % USEC_SEC));
}
