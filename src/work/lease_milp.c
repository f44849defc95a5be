/* SPDX-License-Identifier: Apache-2.0 */
/* lease_milp.c - see lease_milp.h.
 *
 *   maximise  sum_jp v_jp s_jp + sigma sum_j size_j x_j0 / max G
 *   (1) sum_p s_jp = 1                        every task keeps exactly one of its deadlines
 *   (2) sum_{l<L_jp} x_jl >= r_j s_jp         all its leases lie before that one
 *       sum_l x_jl = r_j
 *   (3) sum_j size_j x_jl <= G_l              for every lease
 *
 * The quick plan is given as a start, so that a limit never leaves us without one. The effort is limited by search
 * nodes, never by time: the same request has the same answer on every machine.
 */
#include "work/lease_milp.h"

#include <coin/Cbc_C_Interface.h>
#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "io/lib.h"

/* Loading it costs more than most programs of ours run. */
#define CBC_FILE "libCbcSolver.so.3"
#define CBC_CALLS(X)                                                                                                   \
    X(Cbc_setMIPStartI)                                                                                                \
    X(Cbc_loadProblem)                                                                                                 \
    X(Cbc_setInteger)                                                                                                  \
    X(Cbc_setLogLevel)                                                                                                 \
    X(Cbc_setParameter)                                                                                                \
    X(Cbc_solve)                                                                                                       \
    X(Cbc_getObjValue)                                                                                                 \
    X(Cbc_getBestPossibleObjValue)                                                                                     \
    X(Cbc_isProvenInfeasible)                                                                                          \
    X(Cbc_isProvenOptimal)                                                                                             \
    X(Cbc_getNodeCount)                                                                                                \
    X(Cbc_getColSolution)                                                                                              \
    X(Cbc_newModel)                                                                                                    \
    X(Cbc_deleteModel)

static struct {
    CBC_CALLS(LIB_FIELD)
} cbc;
static const char *const cbc_names[] = { CBC_CALLS(LIB_NAME) };

struct milp {
    struct lease_problem problem;
    struct lease_task *tasks;
    struct lease_plan start;
    int32_t *capacity, *order;
    int64_t nodes;
    bool has_start;
    int *column;               /* first column of each task: its leases, then its steps */
    int columns, rows, filled; /* of the matrix */
    int *starts, *index;
    double *value, *low, *high, *cost, *row_low, *row_high;
};

static void milp_done(struct milp *m)
{
    void *blocks[] = { m->tasks, m->start.bits, m->start.used, m->start.step, m->capacity,
                       m->order, m->column,     m->starts,     m->index,      m->value,
                       m->low,   m->high,       m->cost,       m->row_low,    m->row_high };

    for (size_t i = 0; i < sizeof(blocks) / sizeof(*blocks); i++)
        mem_free(blocks[i]);
}

static bool between(int64_t value, int64_t low, int64_t high)
{
    return value >= low && value <= high;
}

static int bad(struct error *err)
{
    return error_set(err, -EINVAL, "a lease plan that makes no sense");
}

static int read_task(struct lease_task *task, const int64_t **at, const int64_t *end, int32_t leases, struct error *err)
{
    const int64_t *w = *at;

    if (end - w < 3 || !between(w[0], 1, INT32_MAX / 4) || !between(w[1], 1, leases) ||
        !between(w[2], 1, LEASE_STEPS) || end - w < 3 + 2 * w[2])
        return bad(err);
    *task = (struct lease_task){ .size = (int32_t)w[0], .need = (int32_t)w[1], .steps = (int32_t)w[2] };
    w += 3;
    for (int32_t p = 0; p < task->steps; p++, w += 2) {
        if (!between(w[0], p ? task->last[p - 1] : 0, leases) || !between(w[1], 0, p ? task->value[p - 1] : 1000000))
            return bad(err);
        task->last[p] = (int32_t)w[0];
        task->value[p] = (int32_t)w[1];
    }
    *at = w;
    return 0;
}

static int read_request(struct milp *m, const int64_t *words, uint32_t count, struct error *err)
{
    const int64_t *at = words + LEASE_REQUEST_HEAD, *end = words + count;
    struct lease_problem *p = &m->problem;
    int r = 0;

    if (count < LEASE_REQUEST_HEAD || words[0] != 1 || !between(words[1], 1, 1 << 14) ||
        !between(words[2], 1, 1 << 14) || words[1] * words[2] > LEASE_MILP_CELLS || !between(words[3], -1, 1) ||
        !between(words[4], 0, 1 << 30) || end - at < words[2])
        return bad(err);
    p->count = (int32_t)words[1];
    p->leases = (int32_t)words[2];
    p->sigma = (int)words[3];
    m->nodes = words[4];
    m->tasks = mem_zalloc((size_t)p->count, sizeof(*m->tasks));
    m->capacity = mem_zalloc((size_t)p->leases, sizeof(*m->capacity));
    m->order = mem_zalloc((size_t)p->count * 3, sizeof(*m->order));
    m->start.bits = mem_zalloc((size_t)p->count * (size_t)lease_words(p->leases), sizeof(*m->start.bits));
    m->start.used = mem_zalloc((size_t)p->leases, sizeof(*m->start.used));
    m->start.step = mem_zalloc((size_t)p->count, sizeof(*m->start.step));
    if (!m->tasks || !m->capacity || !m->order || !m->start.bits || !m->start.used || !m->start.step)
        return error_set(err, -ENOMEM, "out of memory");
    p->tasks = m->tasks;
    p->capacity = m->capacity;
    for (int32_t l = 0; l < p->leases; l++, at++) {
        if (!between(*at, 0, INT32_MAX / 4))
            return bad(err);
        m->capacity[l] = (int32_t)*at;
    }
    for (int32_t i = 0; i < p->count && r == 0; i++)
        r = read_task(&m->tasks[i], &at, end, p->leases, err);
    return r;
}

static int32_t last_of(const struct lease_task *task)
{
    return task->last[task->steps - 1];
}

static int shape(struct milp *m, struct error *err)
{
    const struct lease_problem *p = &m->problem;
    size_t cells = 0, columns = 0;

    m->column = mem_zalloc((size_t)p->count + 1, sizeof(*m->column));
    if (!m->column)
        return error_set(err, -ENOMEM, "out of memory");
    for (int32_t i = 0; i < p->count; i++) {
        m->column[i] = (int)columns;
        columns += (size_t)last_of(&m->tasks[i]) + (size_t)m->tasks[i].steps;
        cells += (size_t)last_of(&m->tasks[i]) * (2 + (size_t)m->tasks[i].steps) + 2 * (size_t)m->tasks[i].steps;
    }
    m->column[p->count] = m->columns = (int)columns;
    m->rows = p->leases;
    for (int32_t i = 0; i < p->count; i++)
        m->rows += 2 + m->tasks[i].steps;
    m->starts = mem_zalloc(columns + 1, sizeof(*m->starts));
    m->index = mem_zalloc(cells, sizeof(*m->index));
    m->value = mem_zalloc(cells, sizeof(*m->value));
    m->low = mem_zalloc(columns, sizeof(*m->low));
    m->high = mem_zalloc(columns, sizeof(*m->high));
    m->cost = mem_zalloc(columns, sizeof(*m->cost));
    m->row_low = mem_zalloc((size_t)m->rows, sizeof(*m->row_low));
    m->row_high = mem_zalloc((size_t)m->rows, sizeof(*m->row_high));
    if (!m->starts || !m->index || !m->value || !m->low || !m->high || !m->cost || !m->row_low || !m->row_high)
        return error_set(err, -ENOMEM, "out of memory");
    return 0;
}

static void cell(struct milp *m, int row, double value)
{
    m->index[m->filled] = row;
    m->value[m->filled++] = value;
}

/* Rows: one a lease; then of every task its sum, its choice of a step, and one a step. */
static void fill_task(struct milp *m, int32_t task, int row, double most)
{
    const struct lease_task *t = &m->tasks[task];
    int column = m->column[task];

    for (int32_t l = 0; l < last_of(t); l++, column++) {
        m->starts[column] = m->filled;
        m->high[column] = 1;
        m->cost[column] = l == 0 ? -m->problem.sigma * (double)t->size / most : 0;
        cell(m, l, t->size);
        cell(m, row, 1);
        for (int32_t p = 0; p < t->steps; p++)
            if (l < t->last[p])
                cell(m, row + 2 + p, 1);
    }
    m->row_low[row] = m->row_high[row] = t->need;
    m->row_low[row + 1] = m->row_high[row + 1] = 1;
    for (int32_t p = 0; p < t->steps; p++, column++) {
        m->starts[column] = m->filled;
        m->high[column] = 1;
        m->cost[column] = -t->value[p];
        cell(m, row + 1, 1);
        cell(m, row + 2 + p, -t->need);
        m->row_low[row + 2 + p] = 0;
        m->row_high[row + 2 + p] = (double)m->problem.leases;
    }
}

static void fill(struct milp *m)
{
    int row = m->problem.leases;
    double most = 1;

    for (int32_t l = 0; l < m->problem.leases; l++) {
        m->row_high[l] = m->capacity[l];
        most = m->capacity[l] > most ? m->capacity[l] : most;
    }
    for (int32_t i = 0; i < m->problem.count; i++) {
        fill_task(m, i, row, most);
        row += 2 + m->tasks[i].steps;
    }
    m->starts[m->columns] = m->filled;
}

static void give_start(struct milp *m, Cbc_Model *model)
{
    int *columns = mem_zalloc((size_t)m->columns, sizeof(*columns));
    double *values = mem_zalloc((size_t)m->columns, sizeof(*values));
    int32_t words = lease_words(m->problem.leases);

    for (int i = 0; columns && i < m->columns; i++)
        columns[i] = i;
    for (int32_t i = 0; values && i < m->problem.count; i++) {
        int32_t last = last_of(&m->tasks[i]);

        for (int32_t l = 0; l < last; l++)
            values[m->column[i] + l] = lease_has(m->start.bits + i * words, l);
        values[m->column[i] + last + m->start.step[i]] = 1;
    }
    if (columns && values)
        cbc.Cbc_setMIPStartI(model, m->columns, columns, values);
    mem_free(columns);
    mem_free(values);
}

static void write_plan(const struct milp *m, const double *x, int64_t *out)
{
    int32_t words = lease_words(m->problem.leases);

    for (int32_t i = 0; i < m->problem.count; i++, out += 1 + words) {
        const double *at = x + m->column[i];
        int32_t last = last_of(&m->tasks[i]);

        memset(out, 0, (size_t)(1 + words) * sizeof(*out));
        for (int32_t p = 0; p < m->tasks[i].steps; p++)
            if (at[last + p] > 0.5)
                out[0] = p;
        for (int32_t l = 0; l < last; l++)
            if (at[l] > 0.5)
                out[1 + l / 64] |= (int64_t)((uint64_t)1 << (l % 64));
    }
}

static void solve(struct milp *m, Cbc_Model *model, struct work_answer *answer)
{
    char nodes[32];
    int64_t *out = answer->words;
    double best, bound;

    snprintf(nodes, sizeof(nodes), "%lld", (long long)m->nodes);
    cbc.Cbc_loadProblem(model, m->columns, m->rows, m->starts, m->index, m->value, m->low, m->high, m->cost, m->row_low,
                        m->row_high);
    for (int i = 0; i < m->columns; i++)
        cbc.Cbc_setInteger(model, i);
    cbc.Cbc_setLogLevel(model, 0);
    cbc.Cbc_setParameter(model, "logLevel", "0");
    cbc.Cbc_setParameter(model, "threads", "0");
    cbc.Cbc_setParameter(model, "ratioGap", "0.0001");
    if (m->nodes)
        cbc.Cbc_setParameter(model, "maxNodes", nodes);
    if (m->has_start)
        give_start(m, model);
    cbc.Cbc_solve(model);
    best = cbc.Cbc_getObjValue(model);
    bound = cbc.Cbc_getBestPossibleObjValue(model);
    out[0] = LEASE_UNKNOWN;
    if (cbc.Cbc_isProvenInfeasible(model))
        out[0] = LEASE_NO_PLAN;
    else if (cbc.Cbc_isProvenOptimal(model))
        out[0] = LEASE_OPTIMAL;
    else if (best < 1e40)
        out[0] = LEASE_LIMIT;
    out[1] = out[0] == LEASE_LIMIT ? llround(1e6 * fabs(best - bound) / fmax(1, fabs(best))) : 0;
    out[2] = out[0] == LEASE_OPTIMAL || out[0] == LEASE_LIMIT ? llround(-best * 1000) : 0;
    out[3] = cbc.Cbc_getNodeCount(model);
    answer->count = LEASE_ANSWER_HEAD;
    if (out[0] != LEASE_OPTIMAL && out[0] != LEASE_LIMIT)
        return;
    write_plan(m, cbc.Cbc_getColSolution(model), out + LEASE_ANSWER_HEAD);
    answer->count = lease_answer_size(&m->problem);
}

int lease_milp(const int64_t *words, uint32_t count, struct work_answer *answer, struct error *err)
{
    struct milp m = { 0 };
    Cbc_Model *model = NULL;
    int r = read_request(&m, words, count, err);

    if (r == 0 && answer->capacity < lease_answer_size(&m.problem))
        r = error_set(err, -ENOSPC, "no room for a plan of %d tasks", m.problem.count);
    if (r == 0)
        r = lib_open(CBC_FILE, cbc_names, LIB_COUNT(cbc_names), &cbc, err);
    if (r == 0)
        r = shape(&m, err);
    if (r == 0) {
        fill(&m);
        m.has_start = lease_greedy(&m.problem, &m.start, m.order) ||
                      lease_backward(&m.problem, &m.start, m.order, m.order + 2 * m.problem.count);
        if (m.has_start)
            lease_improve(&m.problem, &m.start);
        model = cbc.Cbc_newModel();
        solve(&m, model, answer);
        cbc.Cbc_deleteModel(model);
    }
    milp_done(&m);
    return r;
}
