/* SPDX-License-Identifier: Apache-2.0 */
/* The table of an attempt's states: it is what docs/architecture.md shows, no report of an agent can be illegal, every
 * state can be reached, and from every state an attempt can be over. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/buf.h"
#include "ctl/state/attempt/attempt_machine.h"
#include "io/file.h"

static bool live(int state)
{
    return state != ATTEMPT_NONE && state != ATTEMPT_LEFT && state != ATTEMPT_OVER;
}

static void test_reports(void **state)
{
    static const enum attempt_event said[] = { ATTEMPT_EVENT_READY, ATTEMPT_EVENT_RUN,       ATTEMPT_EVENT_OFF,
                                               ATTEMPT_EVENT_KEEP,  ATTEMPT_EVENT_GANG_ENDS, ATTEMPT_EVENT_GONE };

    (void)state;
    for (int s = 0; s < ATTEMPT_STATE_COUNT; s++)
        for (size_t i = 0; live(s) && i < sizeof(said) / sizeof(*said); i++)
            if (attempt_next((enum attempt_state)s, said[i]) == ATTEMPT_NONE)
                fail_msg("%s: an agent may report '%s'", attempt_state_name((enum attempt_state)s),
                         attempt_event_name(said[i]));
}

/* All that can be reached from a state. */
static uint32_t reach(enum attempt_state from)
{
    uint32_t seen = 1u << from, before;

    do {
        before = seen;
        for (int s = 0; s < ATTEMPT_STATE_COUNT; s++)
            for (int e = 0; seen >> s & 1 && e < ATTEMPT_EVENT_COUNT; e++) {
                enum attempt_state next = attempt_next((enum attempt_state)s, (enum attempt_event)e);

                seen |= next == ATTEMPT_NONE ? 0 : 1u << next;
            }
    } while (seen != before);
    return seen;
}

static void test_reach(void **state)
{
    (void)state;
    assert_int_equal(reach(ATTEMPT_PLACED), (1u << ATTEMPT_STATE_COUNT) - 1 - (1u << ATTEMPT_NONE));
    for (int s = 1; s < ATTEMPT_STATE_COUNT; s++)
        assert_true(reach((enum attempt_state)s) >> ATTEMPT_OVER & 1);
    assert_int_equal(reach(ATTEMPT_OVER), 1u << ATTEMPT_OVER);
    /* Whoever is told to leave does not come back. */
    assert_int_equal(reach(ATTEMPT_STOPPING), ATTEMPT_LEAVING | ATTEMPT_CLOSED);
}

static void test_document(void **state)
{
    CLEANUP_BUF struct buf text = BUF_INIT(1 << 16);
    struct error err = { 0 };
    struct bytes page;
    char path[4096];

    (void)state;
    (void)snprintf(path, sizeof(path), "%s/docs/architecture.md", getenv("MUSTER_SOURCE"));
    assert_int_equal(file_read(path, 1 << 20, &page, &err), 0);
    attempt_machine_print(&text);
    buf_char(&text, '\0');
    if (!strstr(page.data, text.data)) {
        fputs(text.data, stderr);
        fail_msg("docs/architecture.md does not have the table of attempts as it is above");
    }
    bytes_done(&page);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_reports),
        cmocka_unit_test(test_reach),
        cmocka_unit_test(test_document),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
