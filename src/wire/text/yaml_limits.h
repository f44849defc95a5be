/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/* yaml_limits.h - for yaml_doc.c alone: whether a text is small enough to build a document of, aliases written out. */
#include "wire/text/yaml_doc.h"

int yaml_limits_check(const struct yaml_doc *doc, size_t values_max, struct error *err);

int yaml_fail_at(const struct yaml_doc *doc, yaml_mark_t mark, int code, const char *words, struct error *err);
int yaml_parser_fail(const struct yaml_doc *doc, const yaml_parser_t *parser, struct error *err);
