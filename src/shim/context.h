/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/* context.h - the contexts of the process, and events of ours in them. Included by shim.h. */
#include <stdbool.h>
#include <stdint.h>

#include "shim/cuda_abi.h"

bool context_put(CUcontext ctx, int gpu);           /* true: it is new */
uint32_t context_drop(CUcontext ctx, int *ret_gpu); /* its number; 0: not known */
CUcontext context_next(int gpu, uint32_t *i);       /* from i = 0 on, until NULL; gpu < 0: of any */
bool context_all(void);                             /* none was left out for want of room */
int context_gpu(CUcontext ctx);                     /* -1: not known */
uint32_t context_number(CUcontext ctx);             /* 0: not known */
uint32_t context_stream(CUstream stream);           /* number of the stream's; 0: not known */
/* The stream's context; NULL: not known. A green one (green.c) is the one of its GPU here, and everywhere below. */
CUcontext context_of(CUstream stream);
/* --- green.c */
bool green_stands(CUcontext ctx);        /* it stands for a green context */
CUcontext green_own(CUcontext ctx);      /* then the one of its GPU; else the same */
CUcontext green_stream(CUstream stream); /* that of a stream made in a green context; NULL: no such stream */
/* --- enter.c */
void enter_primary(CUdevice dev);      /* a GPU's own context is kept by somebody: which it is */
void enter_primary_look(CUdevice dev); /* and perhaps by nobody any more */
CUcontext enter_primary_of(int gpu);
struct own_event {
    CUevent event;            /* NULL: to be made */
    _Atomic uint32_t context; /* where it was made; others may look for one of theirs */
};
/* In the stream's context, made anew where it is of another or the driver refuses it. False: cannot be. */
bool event_record(struct own_event *own, CUstream stream, unsigned int flags);
void event_forget(struct own_event *own); /* made anew the next time */
