// SPDX-License-Identifier: Apache-2.0
// columns — text in columns, as Go's text/tabwriter lays it out for kubectl: cells end with a tab, a column is as wide as the widest of the
// cells that stand below each other without a gap, and two blanks lie between columns. Pure.
#ifndef LOCAL_COLUMNS_H
#define LOCAL_COLUMNS_H

#include "base/buf.h"

// Lays `text` out into `out`. What follows the last tab of a line belongs to no column. Widths count characters, not bytes. At most
// COLUMNS_MAX columns; tabs beyond them become one blank.
enum { COLUMNS_MAX = 16 };
int columns_print(const char *text, struct buf *out, struct err *e) MUST_USE;

#endif
