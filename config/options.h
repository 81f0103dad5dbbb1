// SPDX-License-Identifier: Apache-2.0
// options — what can be left out of the binary, and what each costs.
//
// Set to 0 here, or for one build: make OPTS=-DOPT_HTTP2=0. The libraries are then built anew, too. The sizes are what the stripped static
// x86-64 binary shrinks by, measured. An absent feature is a stub body or another value, never an #ifdef in a caller.
#ifndef CONFIG_OPTIONS_H
#define CONFIG_OPTIONS_H

// HTTP/2 (nghttp2), 152 KB. Without it each watch is a TLS connection of its own: with 8 watches that is 9.5 MB more memory, so leave it
// out only where flash is scarcer than memory and sync mode is `poll` or `list`.
#ifndef OPT_HTTP2
#define OPT_HTTP2 1
#endif

// libcurl's own texts for its errors, 49 KB. Without them a rare failure is told by number; the common ones have texts of ours.
#ifndef OPT_CURL_TEXT
#define OPT_CURL_TEXT 1
#endif

// [metrics] listen (libmicrohttpd, LGPL-2.1-or-later). Without it nothing is served, and limpet refuses to start when the key is set.
#ifndef OPT_METRICS
#define OPT_METRICS 1
#endif

#endif
