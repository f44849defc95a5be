/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/* save.h - a program saves itself, and is ended after that where somebody asked for it. */
#include <stdint.h>

enum save_how {
    SAVE_FORCE = 1, /* also what would be lost */
    SAVE_END = 2    /* and then it is ended */
};

#define SAVE_SAID_MAX 256

/* Notice, where it was not saved and is to be ended all the same; SIGTERM; SIGKILL. */
enum ending_phase { ENDING_NOTICE, ENDING_TERM, ENDING_KILL };

struct ending {
    enum ending_phase phase;
    uint64_t until_ns;        /* then the next */
    char said[SAVE_SAID_MAX]; /* what is told when it has ended */
};
