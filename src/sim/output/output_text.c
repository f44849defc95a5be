/* SPDX-License-Identifier: Apache-2.0 */
/* output_text.c - see output_text.h. */
#include "sim/output/output_text.h"

#include <inttypes.h>
#include <math.h>
#include <stdbool.h>
#include <string.h>

void text_usec(FILE *out, usec_t usec)
{
    uint64_t size = usec < 0 ? (uint64_t)0 - (uint64_t)usec : (uint64_t)usec;
    unsigned part = (unsigned)(size % 1000000), digits = 6;

    if (usec < 0)
        fputc('-', out);
    fprintf(out, "%" PRIu64, size / 1000000);
    if (!part)
        return;
    for (; part % 10 == 0; part /= 10)
        digits--;
    fprintf(out, ".%0*u", (int)digits, part);
}

void text_real(FILE *out, double value)
{
    char text[512]; /* the longest double has 309 digits before the point */
    size_t length;

    if (!isfinite(value)) {
        fputs("null", out);
        return;
    }
    snprintf(text, sizeof(text), "%.6f", value);
    length = strlen(text);
    while (text[length - 1] == '0')
        length--;
    if (text[length - 1] == '.')
        length--;
    text[length] = 0;
    fputs(strcmp(text, "-0") == 0 ? "0" : text, out);
}

/* The length of the UTF-8 sequence at `text`, or 0 when it is none. Overlong forms and surrogates are none. */
static size_t utf8_length(const char *text)
{
    const unsigned char *s = (const unsigned char *)text;
    size_t length = s[0] < 0x80 ? 1 : s[0] >= 0xc2 && s[0] < 0xe0 ? 2 : s[0] >= 0xe0 && s[0] < 0xf0 ? 3 : 4;

    if (length == 4 && (s[0] < 0xf0 || s[0] > 0xf4))
        return 0;
    for (size_t i = 1; i < length; i++)
        if ((s[i] & 0xc0) != 0x80)
            return 0;
    if ((s[0] == 0xe0 && s[1] < 0xa0) || (s[0] == 0xed && s[1] > 0x9f))
        return 0;
    if ((s[0] == 0xf0 && s[1] < 0x90) || (s[0] == 0xf4 && s[1] > 0x8f))
        return 0;
    return length;
}

/* Writes the next character of *text that needs no escape by itself, and steps over it. */
static void put_plain(FILE *out, const char **text)
{
    size_t length = utf8_length(*text);

    if (length)
        fwrite(*text, 1, length, out);
    else
        fputs("\xef\xbf\xbd", out);
    *text += length ? length : 1;
}

void text_script_json(FILE *out, const char *json, size_t size)
{
    size_t from = 0;

    for (size_t i = 0; i < size; i++) {
        if (json[i] != '<' && json[i] != '>' && json[i] != '&')
            continue;
        (void)fwrite(json + from, 1, i - from, out);
        fprintf(out, "\\u%04x", (unsigned)(unsigned char)json[i]);
        from = i + 1;
    }
    (void)fwrite(json + from, 1, size - from, out);
}

static const char *html_entity(char c)
{
    switch (c) {
    case '&':
        return "&amp;";
    case '<':
        return "&lt;";
    case '>':
        return "&gt;";
    case '"':
        return "&quot;";
    case '\'':
        return "&#39;";
    default:
        return NULL;
    }
}

void text_html(FILE *out, const char *text)
{
    while (*text) {
        const char *entity = html_entity(*text);

        if (entity || ((unsigned char)*text < 0x20 && *text != '\n' && *text != '\t')) {
            fputs(entity ? entity : "\xef\xbf\xbd", out);
            text++;
        } else {
            put_plain(out, &text);
        }
    }
}

void text_csv(FILE *out, const char *text)
{
    if (!text[strcspn(text, ",\"\r\n")]) {
        while (*text)
            put_plain(out, &text);
        return;
    }
    fputc('"', out);
    while (*text) {
        if (*text == '"')
            fputc('"', out);
        put_plain(out, &text);
    }
    fputc('"', out);
}

static bool shell_safe(const char *text)
{
    return *text && !text[strspn(text, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-./:=,@%+")];
}

void text_html_shell(FILE *out, const char *text)
{
    char one[2] = { 0 };

    if (shell_safe(text)) {
        fputs(text, out);
        return;
    }
    fputs("&#39;", out);
    while (*text) {
        if (*text == '\'') {
            fputs("&#39;\\&#39;&#39;", out);
            text++;
        } else if (html_entity(*text) || (unsigned char)*text < 0x20) {
            one[0] = *text++;
            text_html(out, one);
        } else {
            put_plain(out, &text);
        }
    }
    fputs("&#39;", out);
}

char *text_span(char *buffer, size_t size, double seconds)
{
    double s = fabs(seconds);
    const char *sign = seconds < 0 ? "-" : "";
    int64_t whole;

    if (!isfinite(seconds) || s > 1e15) {
        snprintf(buffer, size, "-");
    } else if (s == 0) {
        snprintf(buffer, size, "0s");
    } else if (s < 0.9995) {
        snprintf(buffer, size, "%s%.3gms", sign, s * 1000);
    } else if (s < 99.95) {
        snprintf(buffer, size, "%s%.1fs", sign, s);
    } else if (s < 5999.5) {
        whole = llround(s);
        snprintf(buffer, size, "%s%" PRId64 "m%02" PRId64 "s", sign, whole / 60, whole % 60);
    } else if (s < 172770) {
        whole = llround(s / 60);
        snprintf(buffer, size, "%s%" PRId64 "h%02" PRId64 "m", sign, whole / 60, whole % 60);
    } else {
        whole = llround(s / 3600);
        snprintf(buffer, size, "%s%" PRId64 "d%02" PRId64 "h", sign, whole / 24, whole % 24);
    }
    return buffer;
}

char *text_ratio(char *buffer, size_t size, double ratio)
{
    if (isfinite(ratio))
        snprintf(buffer, size, "%.1f%%", 100 * ratio);
    else
        snprintf(buffer, size, "-");
    return buffer;
}

char *text_count(char *buffer, size_t size, uint64_t count)
{
    char digits[24];
    size_t length = (size_t)snprintf(digits, sizeof(digits), "%" PRIu64, count), at = 0;

    for (size_t i = 0; i < length && at + 2 < size; i++) {
        if (i && (length - i) % 3 == 0)
            buffer[at++] = ',';
        buffer[at++] = digits[i];
    }
    buffer[at] = 0;
    return buffer;
}
