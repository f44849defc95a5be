/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/* agent_dir.h - a folder of its own for each test: setup and teardown of cmocka. */
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "agent/util.h"
#include "io/beneath.h"

static char place[64];
static int dir;

static int dir_open(void **state)
{
    (void)state;
    (void)snprintf(place, sizeof(place), "/tmp/muster-test-agent-XXXXXX");
    assert_non_null(mkdtemp(place));
    dir = open(place, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    return dir < 0;
}

static int dir_close(void **state)
{
    int tmp = open("/tmp", O_RDONLY | O_DIRECTORY | O_CLOEXEC), r = beneath_tree_remove(tmp, place + strlen("/tmp/"));

    (void)state;
    close(tmp);
    close(dir);
    return r;
}
