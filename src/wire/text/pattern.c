/* SPDX-License-Identifier: Apache-2.0 */
/* pattern.c - see pattern.h. A program of small steps, run for all places of the pattern at once (K. Thompson, Regular
 * expression search algorithm, CACM 1968; with the bounds of a group kept by each thread, after R. Pike). Threads are
 * in the order of their priority, so the longest repetition wins, as with other tools. */
#include "wire/text/pattern.h"

#include <errno.h>
#include <string.h>

enum op { OP_BYTE, OP_SET, OP_ANY, OP_SPLIT, OP_JUMP, OP_OPEN, OP_CLOSE, OP_BEGIN, OP_END, OP_MATCH };

enum { DEPTH_MAX = 16 };

/* ---- from text to steps ---- */

struct parser {
    struct pattern *p;
    const char *at;
    const char *wrong; /* what is, in words */
    int depth, groups;
};

static struct pattern_step *step_add(struct parser *ps, enum op op)
{
    static struct pattern_step none;

    if (ps->p->count == PATTERN_STEPS_MAX) {
        ps->wrong = "the pattern is too long";
        return &none;
    }
    ps->p->steps[ps->p->count] = (struct pattern_step){ .op = (uint8_t)op };
    return &ps->p->steps[ps->p->count++];
}

/* Room for a step at `at`: jumps are relative and stay within what is moved. */
static struct pattern_step *step_insert(struct parser *ps, uint16_t at, enum op op)
{
    struct pattern_step *steps = ps->p->steps;

    (void)step_add(ps, op);
    if (ps->wrong)
        return &steps[0];
    memmove(&steps[at + 1], &steps[at], (size_t)(ps->p->count - 1 - at) * sizeof(*steps));
    steps[at] = (struct pattern_step){ .op = (uint8_t)op };
    return &steps[at];
}

static void set_put(uint8_t *set, int from, int to)
{
    for (int c = from; c <= to; c++)
        set[c >> 3] |= (uint8_t)(1 << (c & 7));
}

/* \d, \w, \s and their opposites; false: the letter means itself. */
static bool class_put(uint8_t *set, char letter)
{
    uint8_t own[32] = { 0 };
    bool other = letter == 'D' || letter == 'W' || letter == 'S';

    switch (other ? letter - 'A' + 'a' : letter) {
    case 'd':
        set_put(own, '0', '9');
        break;
    case 'w':
        set_put(own, '0', '9');
        set_put(own, 'a', 'z');
        set_put(own, 'A', 'Z');
        set_put(own, '_', '_');
        break;
    case 's':
        set_put(own, '\t', '\r');
        set_put(own, ' ', ' ');
        break;
    default:
        return false;
    }
    for (int i = 0; i < 32; i++)
        set[i] |= other ? (uint8_t)~own[i] : own[i];
    return true;
}

static uint8_t *set_add(struct parser *ps)
{
    static uint8_t none[32];
    struct pattern_step *step;

    if (ps->p->sets == PATTERN_SETS_MAX) {
        ps->wrong = "too many classes";
        return none;
    }
    step = step_add(ps, OP_SET);
    step->byte = (uint8_t)ps->p->sets;
    memset(ps->p->set[ps->p->sets], 0, 32);
    return ps->p->set[ps->p->sets++];
}

static unsigned char escaped(char letter)
{
    return letter == 't' ? '\t' : letter == 'n' ? '\n' : letter == 'r' ? '\r' : (unsigned char)letter;
}

/* One byte of a class; -1: it was a class of its own. */
static int class_byte(struct parser *ps, uint8_t *set)
{
    char c = *ps->at++;

    if (c != '\\' || !*ps->at)
        return (unsigned char)c;
    c = *ps->at++;
    return class_put(set, c) ? -1 : escaped(c);
}

static void class_read(struct parser *ps)
{
    uint8_t *set = set_add(ps);
    bool other = *ps->at == '^', first = true;

    ps->at += other;
    for (; *ps->at && (first || *ps->at != ']') && !ps->wrong; first = false) {
        int from = class_byte(ps, set), to = from;

        if (from >= 0 && ps->at[0] == '-' && ps->at[1] && ps->at[1] != ']') {
            ps->at++;
            to = class_byte(ps, set);
        }
        if (from >= 0 && to < from)
            ps->wrong = "a range of letters ends before it begins";
        else if (from >= 0)
            set_put(set, from, to);
    }
    if (*ps->at != ']')
        ps->wrong = ps->wrong ? ps->wrong : "'[' without ']'";
    else
        ps->at++;
    for (int i = 0; other && i < 32; i++)
        set[i] = (uint8_t)~set[i];
}

static void any_of(struct parser *ps);

static void group_read(struct parser *ps)
{
    bool silent = strncmp(ps->at, "?:", 2) == 0, value = !silent && ps->groups++ == 0;

    if (*ps->at == '?' && !silent)
        ps->wrong = "'(?' is not known";
    if (++ps->depth > DEPTH_MAX)
        ps->wrong = "parentheses are nested too deep";
    if (ps->wrong)
        return;
    ps->at += silent ? 2 : 0;
    if (value)
        (void)step_add(ps, OP_OPEN);
    any_of(ps);
    if (value)
        (void)step_add(ps, OP_CLOSE);
    if (*ps->at != ')')
        ps->wrong = ps->wrong ? ps->wrong : "'(' without ')'";
    else
        ps->at++;
    ps->depth--;
}

static void atom_read(struct parser *ps)
{
    char c = *ps->at++;

    switch (c) {
    case '(':
        group_read(ps);
        return;
    case '[':
        class_read(ps);
        return;
    case '.':
        (void)step_add(ps, OP_ANY);
        return;
    case '^':
        (void)step_add(ps, OP_BEGIN);
        return;
    case '$':
        (void)step_add(ps, OP_END);
        return;
    case '*':
    case '+':
    case '?':
        ps->wrong = "nothing to repeat";
        return;
    case '{':
        ps->wrong = "'{' is not known; \\{ is the letter";
        return;
    case '\\':
        c = *ps->at ? *ps->at++ : '\\';
        if (strchr("dDwWsS", c) != NULL)
            (void)class_put(set_add(ps), c);
        else
            step_add(ps, OP_BYTE)->byte = escaped(c);
        return;
    default:
        step_add(ps, OP_BYTE)->byte = (uint8_t)c;
        return;
    }
}

static void repeat_read(struct parser *ps)
{
    uint16_t from = ps->p->count;
    struct pattern_step *step;
    int16_t size;
    char mark;

    atom_read(ps);
    mark = *ps->at;
    if (ps->wrong || !mark || !strchr("*+?", mark))
        return;
    ps->at++;
    if (*ps->at && strchr("*+?", *ps->at)) {
        ps->wrong = "repeated twice";
        return;
    }
    size = (int16_t)(ps->p->count - from);
    if (mark != '+') {
        step = step_insert(ps, from, OP_SPLIT);
        step->to = 1;
        step->or_to = (int16_t)(size + (mark == '*' ? 2 : 1));
    }
    if (mark == '*') {
        step_add(ps, OP_JUMP)->to = (int16_t)(-size - 1);
    } else if (mark == '+') {
        step = step_add(ps, OP_SPLIT);
        step->to = (int16_t)-size;
        step->or_to = 1;
    }
}

static void any_of(struct parser *ps)
{
    uint16_t from = ps->p->count, end;

    while (*ps->at && *ps->at != '|' && *ps->at != ')' && !ps->wrong)
        repeat_read(ps);
    if (*ps->at != '|' || ps->wrong)
        return;
    ps->at++;
    {
        struct pattern_step *step = step_insert(ps, from, OP_SPLIT);

        step->to = 1;
        step->or_to = (int16_t)(ps->p->count - from + 1);
    }
    end = ps->p->count;
    (void)step_add(ps, OP_JUMP);
    if (++ps->depth > DEPTH_MAX)
        ps->wrong = "too many alternatives";
    if (ps->wrong)
        return;
    any_of(ps);
    ps->depth--;
    ps->p->steps[end].to = (int16_t)(ps->p->count - end);
}

int pattern_compile(const char *text, struct pattern *ret, struct error *err)
{
    struct parser ps = { .p = ret, .at = text };

    ret->count = ret->sets = 0;
    if (!*text)
        return error_set(err, -EINVAL, "a pattern is empty");
    if (strlen(text) > PATTERN_TEXT_MAX)
        return error_set(err, -EINVAL, "a pattern has at most %d letters", PATTERN_TEXT_MAX);
    any_of(&ps);
    if (!ps.wrong && *ps.at == ')')
        ps.wrong = "')' without '('";
    (void)step_add(&ps, OP_MATCH);
    if (ps.wrong)
        return error_set(err, -EINVAL, "at letter %d: %s", (int)(ps.at - text), ps.wrong);
    return 0;
}

/* ---- looking for it ---- */

struct thread {
    uint16_t step;
    uint16_t from, open, close; /* places in the line; UINT16_MAX = not yet */
};

struct run {
    const struct pattern *p;
    size_t size;
    uint16_t seen[PATTERN_STEPS_MAX], turn;
    struct thread a[PATTERN_STEPS_MAX], b[PATTERN_STEPS_MAX];
};

/* A thread and all it becomes without reading. Each step is reached once a turn, so this is as deep as the pattern is
 * long at most. */
static void thread_add(struct run *run, struct thread *list, size_t *count, struct thread t, size_t at)
{
    const struct pattern_step *step = &run->p->steps[t.step];
    struct thread next = t;

    if (run->seen[t.step] == run->turn)
        return;
    run->seen[t.step] = run->turn;
    next.step = (uint16_t)(t.step + 1);
    switch ((enum op)step->op) {
    case OP_JUMP:
        next.step = (uint16_t)(t.step + step->to);
        break;
    case OP_SPLIT:
        next.step = (uint16_t)(t.step + step->to);
        thread_add(run, list, count, next, at);
        next.step = (uint16_t)(t.step + step->or_to);
        break;
    case OP_OPEN:
        next.open = (uint16_t)at;
        break;
    case OP_CLOSE:
        next.close = (uint16_t)at;
        break;
    case OP_BEGIN:
        if (at != 0)
            return;
        break;
    case OP_END:
        if (at != run->size)
            return;
        break;
    case OP_BYTE:
    case OP_SET:
    case OP_ANY:
    case OP_MATCH:
        list[(*count)++] = t;
        return;
    }
    thread_add(run, list, count, next, at);
}

static bool step_takes(const struct pattern *p, const struct pattern_step *step, unsigned char c)
{
    return step->op == OP_ANY || (step->op == OP_BYTE && step->byte == c) ||
           (step->op == OP_SET && (p->set[step->byte][c >> 3] >> (c & 7) & 1));
}

bool pattern_find(const struct pattern *pattern, const char *line, size_t size, size_t *ret_at, size_t *ret_size)
{
    struct run run = { .p = pattern, .size = size < UINT16_MAX ? size : UINT16_MAX - 1 };
    struct thread *now = run.a, *then = run.b, found = { 0 };
    size_t count = 0, more;
    bool any = false;

    run.turn = 1;
    for (size_t at = 0; at <= run.size; at++) {
        struct thread *swap = now;

        if (!any) /* those that began before come first: the leftmost wins */
            thread_add(&run, now, &count, (struct thread){ 0, (uint16_t)at, UINT16_MAX, UINT16_MAX }, at);
        run.turn++;
        more = 0;
        for (size_t i = 0; i < count; i++) {
            const struct pattern_step *step = &pattern->steps[now[i].step];
            struct thread next = now[i];

            if (step->op == OP_MATCH) {
                found = now[i];
                found.step = (uint16_t)at; /* its end */
                any = true;
                break; /* whoever is behind it comes second */
            }
            next.step++;
            if (at < run.size && step_takes(pattern, step, (unsigned char)line[at]))
                thread_add(&run, then, &more, next, at + 1);
        }
        if (any && more == 0)
            break;
        now = then;
        then = swap;
        count = more;
    }
    if (!any)
        return false;
    if (found.open == UINT16_MAX || found.close == UINT16_MAX) {
        *ret_at = found.from;
        *ret_size = (size_t)(found.step - found.from);
    } else {
        *ret_at = found.open;
        *ret_size = (size_t)(found.close - found.open);
    }
    return true;
}
