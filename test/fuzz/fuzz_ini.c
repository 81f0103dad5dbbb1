// SPDX-License-Identifier: Apache-2.0
//
// The configuration file: any bytes give a configuration or a list of problems, and what is accepted and printed is accepted again.
#include <stdlib.h>
#include <string.h>

#include "config/config.h"

int LLVMFuzzerTestOneInput(const unsigned char *data, size_t size);

// A disk with one file.
struct one_file {
    struct disk disk;
    const void *data;
    size_t size;
};

static int one_read(struct disk *d, const char *path, size_t max, unsigned flags, struct buf *out, struct err *e)
{
    struct one_file *f = container_of(d, struct one_file, disk);
    (void)path;
    (void)flags;
    buf_reset(out);
    return f->size > max ? err_set(e, E_TOOBIG, "too big") : buf_add(out, f->data, f->size, e);
}

static int no_list(struct disk *d, const char *path, int (*fn)(void *ctx, const char *name, enum fs_type t), void *ctx, struct err *e)
{
    (void)d;
    (void)fn;
    (void)ctx;
    return err_set(e, E_NOTFOUND, "%s", path);
}

static const struct disk_ops ops = { .read = one_read, .list = no_list };

static int load(const void *data, size_t size, struct config *c)
{
    struct one_file f = { .disk = { .ops = &ops, .root = "" }, .data = data, .size = size };
    struct buf problems = BUF_INIT(4 * 1024 * 1024);
    struct err e = ERR_INIT;
    int rc = config_load(c, &f.disk, "/etc/limpet/limpet.ini", true, NULL, NULL, &problems, &e);
    buf_fini(&problems);
    return rc;
}

int LLVMFuzzerTestOneInput(const unsigned char *data, size_t size)
{
    struct config c, again;
    int rc = load(data, size, &c);
    struct buf text = BUF_INIT(1024 * 1024);
    struct err e = ERR_INIT;
    if (rc == 0 && config_print(&c, &text, &e) < 0)
        abort();
    buf_fini(&text);
    config_fini(&c);
    // Deterministic: the same bytes get the same verdict.
    if (load(data, size, &again) != rc)
        abort();
    config_fini(&again);
    return 0;
}
