/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/* edf.h - what the planner of edf-admit and the ordering edf have in common: the planner's word in a job. */
enum { EDF_WORD = 0 };
enum { EDF_NEW, EDF_PROMISED, EDF_DECLINED };
