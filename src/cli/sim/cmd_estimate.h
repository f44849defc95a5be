/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/* cmd_estimate.h - muster estimate: train, predict, eval, show. */

int cmd_estimate(int argc, char **argv);
