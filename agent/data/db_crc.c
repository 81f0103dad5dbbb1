// SPDX-License-Identifier: Apache-2.0
// The checksum of a row, for SQL and for salvage, which reads rows without SQLite.
#include <sqlite3.h>
#include <string.h>

#include "data/db_priv.h"

// Of the reflected polynomial 0x82f63b78: [n][b] is what byte b does to the sum when n more bytes follow. [0][1] is never 0 once it is made.
static uint32_t crc_table[4][256];

static void make_crc_table(void)
{
    for (uint32_t i = 0; i < 256; i++) {
        uint32_t c = i;
        for (int bit = 0; bit < 8; bit++)
            c = c >> 1 ^ (c & 1 ? UINT32_C(0x82f63b78) : 0);
        crc_table[0][i] = c;
    }
    for (int n = 1; n < 4; n++)
        for (int i = 0; i < 256; i++)
            crc_table[n][i] = crc_table[n - 1][i] >> 8 ^ crc_table[0][crc_table[n - 1][i] & 0xff];
}

// Four bytes at a time: each row that is read is summed.
uint32_t crc32c_bytes(uint32_t crc, const void *p, size_t n)
{
    const unsigned char *b = p;
    if (crc_table[0][1] == 0)
        make_crc_table();
    crc = ~crc;
    for (; n >= 4; n -= 4, b += 4) {
        crc ^= (uint32_t)b[0] | (uint32_t)b[1] << 8 | (uint32_t)b[2] << 16 | (uint32_t)b[3] << 24;
        crc = crc_table[3][crc & 0xff] ^ crc_table[2][crc >> 8 & 0xff] ^ crc_table[1][crc >> 16 & 0xff] ^ crc_table[0][crc >> 24];
    }
    for (; n > 0; n--, b++)
        crc = crc >> 8 ^ crc_table[0][(crc ^ *b) & 0xff];
    return ~crc;
}

// Each value is its type, its length where it has one, and its bytes, so that no two rows are written alike.
uint32_t db_crc_null(uint32_t crc)
{
    return crc32c_bytes(crc, "n", 1);
}

static uint32_t crc_number(uint32_t crc, char tag, uint64_t v)
{
    unsigned char b[9] = { (unsigned char)tag };
    for (int i = 0; i < 8; i++)
        b[1 + i] = (unsigned char)(v >> 8 * i);
    return crc32c_bytes(crc, b, sizeof(b));
}

uint32_t db_crc_int(uint32_t crc, int64_t v)
{
    return crc_number(crc, 'i', (uint64_t)v);
}

uint32_t db_crc_bytes(uint32_t crc, bool text, const void *p, size_t n)
{
    return crc32c_bytes(crc_number(crc, text ? 't' : 'b', n), p, n);
}

uint32_t db_crc_value(uint32_t crc, struct sqlite3_value *v)
{
    switch (sqlite3_value_type(v)) {
    case SQLITE_INTEGER:
        return db_crc_int(crc, sqlite3_value_int64(v));
    case SQLITE_TEXT: {
        const void *p = sqlite3_value_text(v); // before its length is asked for
        return db_crc_bytes(crc, true, p, (size_t)sqlite3_value_bytes(v));
    }
    case SQLITE_BLOB: {
        const void *p = sqlite3_value_blob(v);
        return db_crc_bytes(crc, false, p, (size_t)sqlite3_value_bytes(v));
    }
    default:
        return db_crc_null(crc);
    }
}

bool db_row_ok(sqlite3_stmt *st, const struct db_table *t)
{
    uint32_t crc = db_crc_bytes(0, true, t->name, strlen(t->name));
    for (int i = !t->rowid; i < t->columns - 1; i++)
        crc = db_crc_value(crc, sqlite3_column_value(st, i));
    return sqlite3_column_int64(st, t->columns - 1) == (int32_t)crc;
}

static void row_crc(sqlite3_context *ctx, int n, sqlite3_value **v)
{
    uint32_t crc = 0;
    for (int i = 0; i < n; i++)
        crc = db_crc_value(crc, v[i]);
    sqlite3_result_int64(ctx, (int32_t)crc); // signed: four bytes in the record
}

int db_add_crc_function(struct sqlite3 *sq, struct err *e)
{
    int flags = SQLITE_UTF8 | SQLITE_DETERMINISTIC | SQLITE_INNOCUOUS;
    int rc = sqlite3_create_function_v2(sq, "row_crc", -1, flags, NULL, row_crc, NULL, NULL, NULL);
    return rc == SQLITE_OK ? 0 : db_error(sq, rc, e, "row_crc");
}
