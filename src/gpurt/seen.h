/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/* seen.h - who uses the GPUs of a machine without NVIDIA's management library: whoever has a device of theirs open.
 *
 * A CUDA program opens all GPUs it may use, so one that uses the first of four is seen on four. What they hold cannot
 * be told this way. MUSTER_GPU_DRIVER_DIR stands for /proc/driver/nvidia and MUSTER_GPU_DEVICE_DIR for /dev in tests.
 */
#include "gpurt/foreign.h"

/* Fills at most `most`; how many. Our own program's processes (guardians) are left out. */
uint32_t seen_look(struct foreign *ret, uint32_t most);
