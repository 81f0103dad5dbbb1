// SPDX-License-Identifier: Apache-2.0
// unpack — a program of its own in the same binary: it makes a directory out of a downloaded file, whole or not at all.
//
//   limpet unpack FILE SHA256 FORM DIR MAX-BYTES MAX-ENTRIES RESERVE
//
//   limpet unpack --remove DIR
//
// The file's sha256 is compared first. Then what is in it comes into DIR.new, which is flushed and only then called DIR. FORM is tar.gz,
// tar.zst, or `file`: the file itself, as DIR/artifact, 0755. What an unfinished one left in DIR.new goes first. Nothing is ever unpacked in the agent:
// the archive is a stranger's, this process sees nothing but DIR.new (chroot), has no capabilities, and bounds on memory and time. The second
// form takes such a directory away again: large ones take long, and the agent waits for nothing.
#ifndef UNPACK_UNPACK_H
#define UNPACK_UNPACK_H

#include "base/err.h"

// Exit codes; a line on stderr says more.
enum {
    UNPACK_OK = 0,
    UNPACK_FAILED = 1, // the machine: disk, memory
    UNPACK_DIGEST = 2, // the file is another than SHA256 says
    UNPACK_BAD = 3,    // the archive is damaged, hostile, or over a bound
    UNPACK_NO_SPACE = 4,
    UNPACK_USAGE = 64
};

int unpack_main(int argc, char **argv);

#endif
