// SPDX-License-Identifier: Apache-2.0
// config — what the owner set: built-in defaults < limpet.ini < conf.d/*.ini (by name) < LIMPET_* < flags.
//
// Unknown sections, keys and bad values are collected, all at once, each with file, line and the nearest valid name; then the
// caller exits with 78 (EX_CONFIG). One table in config_keys.c describes every key: section, name, type, bounds, default, help; the man page,
// `limpet check-config --print` and the environment names (LIMPET_SECTION_KEY) come from it.
// The only user of inih.
#ifndef CONFIG_CONFIG_H
#define CONFIG_CONFIG_H

#include "base/buf.h"
#include "base/err.h"
#include "base/fsio.h"
#include "base/log.h"

enum sync_mode { SYNC_AUTO, SYNC_WATCH, SYNC_POLL, SYNC_LIST };

enum { GUARD_PATHS_MAX = 32, CONFIG_KEYS_MAX = 80 };

// Who set a value; a later one wins. Of the values that an EdgePolicy can set, it overrules the first two and yields to the others.
enum config_origin { CONFIG_DEFAULT, CONFIG_FILE, CONFIG_ENVIRONMENT, CONFIG_FLAG };

struct config {
    // [node]
    char *node_name;      // default: from the stored identity, else the host name in lower case
    char *node_namespace; // default: from the stored identity
    // [server]
    char *server_url, *server_kubeconfig, *server_context, *server_ca_file, *server_token_file, *server_cert_file, *server_key_file;
    char *server_name, *server_proxy, *server_no_proxy, *server_extra_ca_file, *server_proxy_auth_file, *server_proxy_ca_file;
    bool server_metaserver; // KubeEdge's MetaServer: list mode, absence confirmed
    // [sync]
    enum sync_mode sync_mode;
    int64_t sync_interval_ms;                         // poll and list; default 10 s
    int64_t sync_watch_timeout_ms;                    // long watch; default 300 s (jittered to 2x)
    int64_t sync_page;                                // default 50
    int64_t sync_backoff_min_ms, sync_backoff_cap_ms; // 0.8 s, 60 s
    // [lease]
    int64_t lease_duration_ms, lease_renew_ms; // 40 s, 10 s
    bool lease_enabled;
    // [engine]
    int64_t engine_resync_ms, engine_pass_deadline_ms, engine_max_objects;
    // [outbox]
    int64_t outbox_max_events, outbox_rate; // 5000, 50 a second
    // [store]
    int64_t store_max_bytes;
    // [guard]
    char *guard_paths[GUARD_PATHS_MAX + 1]; // NULL-terminated; where EdgeConfig may write
    int64_t guard_restore_hold_ms;
    // [manifests]
    char *manifests_dir; // "" = none
    // [port]
    char *port_name; // exec | systemd | null
    char *port_unit_dir;
    char *port_container_tool; // NULL = podman or docker, whichever is there
    char *port_cgroup;
    char *port_root; // "" or /host
    // [metrics]
    char *metrics_listen; // "" = nothing is served
    // [clock]
    int clock_trust; // 0 auto, 1 always
    // [log]
    enum log_level log_level;
    enum log_format log_format;
    enum log_target log_target;
    char *log_socket;
    // [paths]
    char *state_dir, *run_dir, *log_dir;
    char *control_group;                    // group that may read the control socket
    char *config_file;                      // where it came from
    unsigned char origins[CONFIG_KEYS_MAX]; // enum config_origin, in the order of config_keys
};

// One problem per line in `problems` ("limpet.ini:12: [sync] intervall: unknown key; did you mean `interval'?").
// `overrides`: "section.key=value" strings of flags, NULL-terminated, may be NULL. `environ_`: the environment, may be NULL.
// E_INVAL when there is any problem. A missing default file is fine; a missing file that was named (must_exist) is not.
int config_load(struct config *c, struct disk *d, const char *file, bool must_exist, const char *const *overrides, char *const *environ_,
                struct buf *problems, struct err *e) MUST_USE;
void config_fini(struct config *c);
// Every key with its help and effective value, as text that config_load() takes again; a proxy with a password is only mentioned.
int config_print(const struct config *c, struct buf *out, struct err *e) MUST_USE;
const char *const *config_guard_paths(const struct config *c);
// "sync", "mode". CONFIG_DEFAULT for what is no key.
enum config_origin config_origin_of(const struct config *c, const char *section, const char *name);

#endif
