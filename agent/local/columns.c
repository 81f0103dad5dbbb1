// SPDX-License-Identifier: Apache-2.0
#include "local/columns.h"

#include <string.h>

enum { GAP = 2 };

// The end of the cell that begins at p: a tab, or the line's end.
static const char *cell_end(const char *p)
{
    return p + strcspn(p, "\t\n");
}

// Characters of UTF-8 text: all bytes that do not continue one.
static int width_of(const char *p, const char *end)
{
    int n = 0;
    for (; p < end; p++)
        n += ((unsigned char)*p & 0xc0) != 0x80;
    return n;
}

// The cell of that column in the line at p; NULL when the line has none that ends with a tab.
static const char *find_cell(const char *p, int column)
{
    const char *end = cell_end(p);
    for (; column > 0 && *end == '\t'; column--) {
        p = end + 1;
        end = cell_end(p);
    }
    return column == 0 && *end == '\t' ? p : NULL;
}

static const char *next_line(const char *p)
{
    p += strcspn(p, "\n");
    return *p == '\n' ? p + 1 : p;
}

// Of the lines from p on that have this column, without a gap.
static int block_width(const char *p, int column)
{
    int width = 0;
    for (const char *cell; *p != '\0' && (cell = find_cell(p, column)) != NULL; p = next_line(p))
        width = MAX(width, width_of(cell, cell_end(cell)));
    return width;
}

// width[i] is that of the block that column i is in; -1: it is in none. Looked for again where a block begins.
static int print_line(const char *p, int width[COLUMNS_MAX], struct buf *out, struct err *e)
{
    const char *line = p;
    int rc = 0;
    for (int i = 0; rc == 0; i++) {
        const char *end = cell_end(p);
        if (*end != '\t') {
            for (; i < COLUMNS_MAX; i++)
                width[i] = -1;
            return buf_add(out, p, (size_t)(end - p), e);
        }
        if (i < COLUMNS_MAX && width[i] < 0)
            width[i] = block_width(line, i);
        int room = i < COLUMNS_MAX ? width[i] + GAP - width_of(p, end) : 1;
        rc = buf_add(out, p, (size_t)(end - p), e);
        if (rc == 0)
            rc = buf_addf(out, e, "%*s", room, "");
        p = end + 1;
    }
    return rc;
}

int columns_print(const char *text, struct buf *out, struct err *e)
{
    int width[COLUMNS_MAX], rc = 0;
    for (int i = 0; i < COLUMNS_MAX; i++)
        width[i] = -1;
    while (rc == 0 && *text != '\0') {
        const char *next = next_line(text);
        rc = print_line(text, width, out, e);
        if (rc == 0 && next[-1] == '\n')
            rc = buf_add(out, "\n", 1, e);
        text = next;
    }
    return rc;
}
