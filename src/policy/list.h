/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/* list.h - the register of policies: one line each. Look-up by name is in registry.h.
 *
 * ORDERS, PLACES, PLANNERS and TUNERS name the parts; POLICIES are compositions under the names people use. A
 * composition fixes some knobs of its parts; the rest can be set with --set or in the cluster file.
 */
#include "core/contract/order.h"
#include "core/contract/place.h"
#include "core/contract/planner.h"
#include "core/contract/tune.h"

#define ORDERS(X)                                                                                                      \
    X(fifo) X(sjf) X(srtf) X(srsf) X(las) X(gittins) X(tiresias_sim) X(pollux_sim) X(chronus) X(edf) X(tier)

#define PLACES(X)                                                                                                      \
    X(count) X(consolidate) X(spread) X(random) X(topology) X(yarn) X(levels) X(skew) X(emptiest) X(pack) X(liquid)

#define PLANNERS(X)                                                                                                    \
    X(list)                                                                                                            \
    X(list_preempt)                                                                                                    \
    X(backfill_easy)                                                                                                   \
    X(backfill_conservative)                                                                                           \
    X(yarn)                                                                                                            \
    X(tiresias_sim)                                                                                                    \
    X(optimus)                                                                                                         \
    X(pollux_las)                                                                                                      \
    X(pollux_optimus)                                                                                                  \
    X(chronus)                                                                                                         \
    X(edf_admit)                                                                                                       \
    X(liquid)                                                                                                          \
    X(liquid_batch)                                                                                                    \
    X(antman)                                                                                                          \
    X(singularity)                                                                                                     \
    X(gandiva)

/* What may be done to running jobs, whatever the ordering: `optimise`. */
#define TUNERS(X) X(pack) X(migrate) X(grow) X(defrag) X(types)

/* name, planner, order, place, fixed knobs, summary */
#define POLICIES(X)                                                                                                    \
    X("fifo", list, fifo, count, "mode=strict", "first come, first served; the head of the line blocks")               \
    X("fifo-skip", list, fifo, count, "mode=skip", "first come, first served; what does not fit is passed over")       \
    X("sjf", list, sjf, count, "mode=strict", "shortest job first by estimate, never preempting")                      \
    X("srtf", list_preempt, srtf, count, "mode=preempt", "shortest remaining time first, preempting")                  \
    X("srsf", list_preempt, srsf, count, "mode=preempt", "shortest remaining service (time x GPUs) first, preempting") \
    X("las", list_preempt, las, count, "mode=preempt queues=3600s,36000s,360000s",                                     \
      "least attained service in discrete queues (Tiresias), preempting; needs no estimates")                          \
    X("gittins", list_preempt, gittins, count, "mode=preempt queues=36000s,360000000s",                                \
      "as las, and inside a queue by the Gittins index from the history of this cluster (Tiresias)")                   \
    X("backfill-easy", backfill_easy, fifo, count, "",                                                                 \
      "first come, first served; later jobs may use gaps that do not delay the first")                                 \
    X("backfill-conservative", backfill_conservative, fifo, count, "", "the same, but no waiting job may be delayed")  \
    X("optimus", optimus, fifo, count, "", "elastic sizes by predicted gain, from reported losses and speeds")         \
    X("liquid", liquid, fifo, liquid, "mode=skip", "network-aware best fit by the traffic between tasks (Liquid)")     \
    X("gandiva", gandiva, fifo, consolidate, "optimise=pack,migrate,grow,types",                                       \
      "every job runs soon: turns, packing, migration, elastic sizes, by what is measured (Gandiva)")                  \
    X("chronus", chronus, chronus, consolidate, "",                                                                    \
      "deadlines promised only when they can be kept, by leases (Chronus)")                                            \
    X("edf", list_preempt, edf, count, "mode=preempt", "earliest deadline first, preempting")                          \
    X("edf-admit", edf_admit, edf, count, "mode=preempt",                                                              \
      "the same, for deadlines that were possible when the job came")                                                  \
    X("liquid-batch", liquid_batch, fifo, liquid, "",                                                                  \
      "arrivals gathered and placed together by a grouping genetic search (Liquid)")                                   \
    X("antman", antman, fifo, consolidate, "",                                                                         \
      "opportunistic jobs on the GPUs of guaranteed ones, which they do not slow down (AntMan)")                       \
    X("singularity", singularity, tier, topology, "optimise=defrag",                                                   \
      "tiers with a promised part of GPU time, kept by resizing and moving jobs (Singularity)")                        \
    X("yarn-cs", yarn, fifo, levels, "requeue=tail", "capacity queues with locality that relaxes (Philly)")

/*  What `--set compat=NAME` makes of a policy: the parts that do as another program does.
 *  policy, name, planner, order, fixed knobs */
#define COMPATS(X)                                                                                                     \
    X("las", "tiresias-sim", tiresias_sim, tiresias_sim, "queues=3250s,7200s")                                         \
    X("las", "muri-sim", tiresias_sim, tiresias_sim, "timer=exact queues=3250s,7200s")                                 \
    X("las", "pollux-sim", pollux_las, pollux_sim, "place=emptiest")                                                   \
    X("optimus", "pollux-sim", pollux_optimus, pollux_sim, "")

#define X(name) extern const struct order_ops order_##name;
ORDERS(X)
#undef X
#define X(name) extern const struct place_ops place_##name;
PLACES(X)
#undef X
#define X(name) extern const struct tune_ops tune_##name;
TUNERS(X)
#undef X
#define X(name) extern const struct planner_ops planner_##name;
PLANNERS(X)
#undef X
