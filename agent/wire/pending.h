// SPDX-License-Identifier: Apache-2.0
// pending — the key that waits for its certificate: <state>/certificate.json (0600, one atomic file).
//
// It is on the disk before the request that names it leaves the machine, so that the certificate finds its key after any cut.
#ifndef WIRE_PENDING_H
#define WIRE_PENDING_H

#include "base/clock.h"
#include "base/fsio.h"

#define PENDING_FILE "certificate.json"
#define CERTIFICATE_GROUP "limpet:nodes" // of all nodes with a certificate; grants nothing by itself

struct pending {
    char *user;    // the certificate's common name
    char *key_pem; // secret
    char *request; // PKCS#10, PEM
};

void pending_fini(struct pending *p); // wipes; may be used again
// E_NOTFOUND: there is none. E_CORRUPT: what lies there is none.
int pending_load(struct pending *p, struct disk *d, const char *state_dir, struct err *e) MUST_USE;
// A new key and its request, stored in the place of what was there. On error *p is empty. Blocks for the fsync.
int pending_make(struct pending *p, struct disk *d, const char *state_dir, const char *user, struct clock *c, struct err *e) MUST_USE;
int pending_remove(struct disk *d, const char *state_dir, struct err *e) MUST_USE; // absent is success

#endif
