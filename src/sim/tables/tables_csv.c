/* SPDX-License-Identifier: Apache-2.0 */
/* tables_csv.c - see tables_csv.h. */
#include "sim/tables/tables_csv.h"

#include "io/file.h"
#include "sim/world/world_table.h"

int table_csv_read(struct table_csv *file, const char *path, struct error *err)
{
    int r;

    *file = (struct table_csv){ 0 };
    r = file_read(path, 0, &file->bytes, err);
    if (r < 0)
        return r;
    csv_init(&file->csv, file_label(path), file->bytes.data, file->bytes.size, ',');
    return 0;
}

int table_csv_open(struct table_csv *file, const char *path, struct csv_column *columns, size_t column_count,
                   struct error *err)
{
    int r = table_csv_read(file, path, err);

    if (r < 0)
        return r;
    r = csv_header(&file->csv, columns, column_count, err);
    if (r < 0)
        table_csv_close(file);
    return r;
}

void table_csv_close(struct table_csv *file)
{
    csv_done(&file->csv);
    bytes_done(&file->bytes);
}

int table_csv_speed(const struct csv *csv, int index, bool zero, double *ret_value, struct error *err)
{
    double value;
    int r;

    if (!csv_get(csv, index))
        return csv_expected(csv, index, err, "a number");
    r = csv_double(csv, index, &value, err);
    if (r < 0)
        return r;
    if (!table_number_ok(value) && !(zero && value == 0))
        return csv_expected(csv, index, err, "%sa number from 1e-12 to 1e12", zero ? "0 or " : "");
    *ret_value = value;
    return 0;
}

int table_csv_name(const struct csv *csv, int index, struct names *names, uint32_t *ret_name, struct error *err)
{
    if (!csv_get(csv, index))
        return csv_expected(csv, index, err, "a name");
    return csv_name(csv, index, names, ret_name, err);
}
