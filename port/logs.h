// SPDX-License-Identifier: Apache-2.0
// logs — reading back what instances printed, by absolute offset, over rotations. The writer is shim/logwriter.c.
#ifndef PORT_LOGS_H
#define PORT_LOGS_H

#include "base/buf.h"

// As port_ops.log_read and log_remove; dir is the log directory's path.
int logs_read(const char *dir, const char *name, int64_t *offset, size_t max, struct buf *out, struct err *e) MUST_USE;
int logs_remove(const char *dir, const char *name, struct err *e) MUST_USE;

#endif
