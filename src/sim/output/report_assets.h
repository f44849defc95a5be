/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/* report_assets.h - the files of report/, embedded at build time by report/embed.c. */
#include <stddef.h>

extern const char asset_report_css[], asset_plot_js[], asset_gantt_js[], asset_report_js[];
extern const size_t asset_report_css_size, asset_plot_js_size, asset_gantt_js_size, asset_report_js_size;
