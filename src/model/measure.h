/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/* measure.h - what training jobs report of themselves: kinds of struct report (model/event.h), in integers.
 *
 * Loss and speed are measurements, with the noise of measurements. The true rate comes from a simulation only, and only
 * to a policy that was told to be an oracle.
 */
enum measure {
    MEASURE_LOSS = 1, /* value: epochs trained, in thousandths; loss in billionths, 0 = not told; epochs in all, 0 = not
                         told */
    MEASURE_SPEED,    /* value: GPUs; nodes or, with parameter servers, those; epochs a second, in billionths */
    MEASURE_RATE,     /* value: GPUs; nodes or servers; the true rate there, in parts per million of nominal */
    MEASURE_PROFILE,  /* value: GPUs; nodes; the rate there, in parts per million of what was asked for. Before it
                       * starts;  nodes 0: of a real job that runs, as it lies, of what its estimate says */
    MEASURE_WORKER, /* value: a GPU of the job; its speed, 1,000,000 = as it should be; how many more of the job follow
                     */
    /* Of simulations that are compared with Pollux', to its planner only. */
    MEASURE_STEP, /* value: GPUs; time of a step with so many, in femtoseconds */
    MEASURE_LEFT, /* value: steps left, in millionths */
    MEASURE_USE, /* value: utilisation of its GPUs over the last seconds, in hundredths of a percent; their memory, MiB;
                    what it keeps in host memory because there was no room, MiB */
    MEASURE_IDLE,  /* value: 0: it no longer uses its GPUs, whose utilisation was below a tenth, twice in a row; 1: it
                    * does so again; MiB it has of the fullest of them, 0 = not told */
    MEASURE_BATCH, /* value: mini-batches a second, in millionths, over a window; utilisation of its GPUs in percent, 0
                    * = not known; its GPU memory in MiB, 0 = not known */
};
