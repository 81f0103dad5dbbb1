// SPDX-License-Identifier: Apache-2.0
#include "config/config_keys.h"

#include <limits.h>
#include <string.h>

static const char *const modes[] = { "auto", "watch", "poll", "list", NULL };
static const char *const levels[] = { "error", "warn", "info", "debug", NULL };
static const char *const trusts[] = { "auto", "always", NULL };
static const char *const targets[] = { "auto", "stderr", "syslog", NULL };
static const char *const formats[] = { "auto", "text", "json", NULL };

#define AT(field) offsetof(struct config, field)
#define SEC INT64_C(1000)
#define DAY (INT64_C(86400) * SEC)

const struct config_key config_keys[] = {
    { "node", "name", KEY_STRING, AT(node_name), NULL, 0, 0, NULL,
      "name of this node; from the identity that `limpet join` stored, else the host name" },
    { "node", "namespace", KEY_STRING, AT(node_namespace), NULL, 0, 0, NULL,
      "namespace whose objects are this node's desired state; from the identity" },

    { "server", "url", KEY_STRING, AT(server_url), NULL, 0, 0, NULL,
      "https://host:port of the API server; http:// only on the loopback interface" },
    { "server", "kubeconfig", KEY_PATH, AT(server_kubeconfig), NULL, 0, 0, NULL, "kubeconfig to take server and credential from" },
    { "server", "context", KEY_STRING, AT(server_context), NULL, 0, 0, NULL, "context of the kubeconfig; its current-context" },
    { "server", "ca", KEY_PATH, AT(server_ca_file), NULL, 0, 0, NULL, "PEM file of the CA that signed the server's certificate" },
    { "server", "tokenFile", KEY_PATH, AT(server_token_file), NULL, 0, 0, NULL,
      "file with a bearer token; read again each minute and on 401" },
    { "server", "clientCertificate", KEY_PATH, AT(server_cert_file), NULL, 0, 0, NULL, "PEM file of a client certificate" },
    { "server", "clientKey", KEY_PATH, AT(server_key_file), NULL, 0, 0, NULL, "PEM file of its key" },
    { "server", "tlsServerName", KEY_STRING, AT(server_name), NULL, 0, 0, NULL,
      "name that the server's certificate must carry; the host of the URL" },
    { "server", "extraCA", KEY_PATH, AT(server_extra_ca_file), NULL, 0, 0, NULL,
      "PEM file of authorities trusted beside the server's: that of a proxy that looks into TLS" },
    { "server", "proxy", KEY_STRING, AT(server_proxy), NULL, 0, 0, NULL,
      "http[s]://[user:password@]host:port; else HTTPS_PROXY of the environment" },
    { "server", "proxyAuth", KEY_PATH, AT(server_proxy_auth_file), NULL, 0, 0, NULL,
      "file with user:password for the proxy, readable for its owner only" },
    { "server", "proxyCA", KEY_PATH, AT(server_proxy_ca_file), NULL, 0, 0, NULL,
      "PEM file of who issues the certificate of an https:// proxy; the authorities for the server" },
    { "server", "noProxy", KEY_STRING, AT(server_no_proxy), NULL, 0, 0, NULL, "hosts reached without the proxy, separated by commas" },
    { "server", "metaServer", KEY_BOOL, AT(server_metaserver), "false", 0, 0, NULL,
      "the server is KubeEdge's MetaServer: lists only, absence confirmed one by one" },

    { "sync", "mode", KEY_ENUM, AT(sync_mode), "auto", 0, 0, modes, "auto: watch, and poll when watches keep breaking" },
    { "sync", "interval", KEY_DURATION, AT(sync_interval_ms), "10s", 500, DAY, NULL, "between polls or lists" },
    { "sync", "watchTimeout", KEY_DURATION, AT(sync_watch_timeout_ms), "5m", SEC, DAY, NULL,
      "shortest life of a watch; each lives up to twice that, at random" },
    { "sync", "pageSize", KEY_INT, AT(sync_page), "50", 1, 1000, NULL, "objects a page where the first list cannot be streamed" },
    { "sync", "backoff", KEY_DURATION, AT(sync_backoff_min_ms), "800ms", 10, 60 * SEC, NULL, "first delay after the link broke; doubles" },
    { "sync", "backoffCap", KEY_DURATION, AT(sync_backoff_cap_ms), "60s", SEC, DAY, NULL,
      "longest delay; the cap is one twentieth of the outage, at least 5 s" },

    { "lease", "enabled", KEY_BOOL, AT(lease_enabled), "true", 0, 0, NULL,
      "renew the node's Lease: READY in `limpetctl node list`, and one agent a node" },
    { "lease", "duration", KEY_DURATION, AT(lease_duration_ms), "40s", 2 * SEC, DAY, NULL, "how long a renewal counts" },
    { "lease", "renew", KEY_DURATION, AT(lease_renew_ms), "10s", SEC, DAY, NULL, "between renewals" },

    { "engine", "resync", KEY_DURATION, AT(engine_resync_ms), "5m", SEC, DAY, NULL, "how often a stable object is looked at again" },
    { "engine", "passDeadline", KEY_DURATION, AT(engine_pass_deadline_ms), "5s", 100, 3600 * SEC, NULL,
      "what a pass may take before it is cancelled" },
    { "engine", "maxObjects", KEY_INT, AT(engine_max_objects), "20000", 1, 1000000, NULL, "objects beyond this are refused" },

    { "outbox", "maxEvents", KEY_INT, AT(outbox_max_events), "5000", 10, 1000000, NULL, "events kept while offline; the oldest go first" },
    { "outbox", "rate", KEY_INT, AT(outbox_rate), "50", 1, 10000, NULL, "requests a second when the outbox is replayed" },

    { "store", "maxSize", KEY_SIZE, AT(store_max_bytes), "64Mi", 1 << 20, INT64_C(1) << 40, NULL, "largest size of the store" },

    { "guard", "paths", KEY_PATHS, AT(guard_paths), "/etc /opt /srv /usr/local /var/lib /home", 0, 0, NULL,
      "directories in which EdgeConfig may write, separated by blanks" },
    { "guard", "restoreHold", KEY_DURATION, AT(guard_restore_hold_ms), "1h", 0, 30 * DAY, NULL,
      "how long deletes wait when the server's database seems restored" },

    { "manifests", "dir", KEY_STRING, AT(manifests_dir), "/etc/limpet/manifests", 0, 0, NULL,
      "directory of files that define objects beside the server's, or without one; empty: none" },

    { "port", "name", KEY_STRING, AT(port_name), "exec", 0, 0, NULL, "what runs an EdgeApp that names no runtime: exec, systemd or null" },
    { "port", "unitDir", KEY_PATH, AT(port_unit_dir), "/etc/systemd/system", 0, 0, NULL,
      "where runtime systemd puts its units; on a read-only disk they go to /run, and do not start before the agent does" },
    { "port", "containerTool", KEY_STRING, AT(port_container_tool), "", 0, 0, NULL,
      "name or path of the podman or docker that runs apps with an image; empty: podman, else docker" },
    { "port", "cgroup", KEY_PATH, AT(port_cgroup), NULL, 0, 0, NULL,
      "directory of a control group (v2) in which runtime exec makes one for each instance with limits; empty: the delegated one" },
    { "port", "root", KEY_STRING, AT(port_root), "", 0, 0, NULL, "where the machine's root is mounted; empty on the machine itself" },

    { "metrics", "listen", KEY_STRING, AT(metrics_listen), "", 0, 0, NULL,
      "ADDRESS:PORT where /metrics, /healthz and /readyz are served; empty: nowhere" },

    { "clock", "trust", KEY_ENUM, AT(clock_trust), "auto", 0, 0, trusts,
      "auto, or always: believe the wall clock even when nothing vouches for it" },

    { "log", "level", KEY_ENUM, AT(log_level), "info", 0, 0, levels, "error, warn, info or debug" },
    { "log", "format", KEY_ENUM, AT(log_format), "auto", 0, 0, formats,
      "text on a terminal, in the journal and for the log daemon, JSON lines otherwise" },
    { "log", "target", KEY_ENUM, AT(log_target), "auto", 0, 0, targets,
      "stderr, syslog, or auto: stderr unless it is /dev/null or closed" },
    { "log", "socket", KEY_PATH, AT(log_socket), "/dev/log", 0, 0, NULL, "where the log daemon listens" },

    { "paths", "state", KEY_PATH, AT(state_dir), "/var/lib/limpet", 0, 0, NULL, "store, identity, backups; survives reboots" },
    { "paths", "run", KEY_PATH, AT(run_dir), "/run/limpet", 0, 0, NULL, "control socket and running instances; dies with the boot" },
    { "paths", "log", KEY_PATH, AT(log_dir), "/var/log/limpet", 0, 0, NULL, "output of workloads" },
    { "paths", "controlGroup", KEY_STRING, AT(control_group), "limpet", 0, 0, NULL, "group that may read through the control socket" },
};
const size_t n_config_keys = ARRAY_LEN(config_keys);
_Static_assert(ARRAY_LEN(config_keys) <= CONFIG_KEYS_MAX, "CONFIG_KEYS_MAX");

enum { WORD_MAX = 40 };

// Edit distance of two short words, case ignored; a long word is far from everything.
static size_t distance(const char *a, const char *b)
{
    size_t row[WORD_MAX + 1], n = strlen(b);
    if (strlen(a) > WORD_MAX || n > WORD_MAX)
        return WORD_MAX;
    for (size_t j = 0; j <= n; j++)
        row[j] = j;
    for (size_t i = 1; a[i - 1] != '\0'; i++) {
        size_t diagonal = row[0];
        row[0] = i;
        for (size_t j = 1; j <= n; j++) {
            size_t same = diagonal + ((a[i - 1] | 0x20) != (b[j - 1] | 0x20) ? 1 : 0);
            diagonal = row[j];
            row[j] = MIN(same, MIN(row[j], row[j - 1]) + 1);
        }
    }
    return row[n];
}

const char *config_nearest(const char *section, const char *name, bool section_only)
{
    const char *best = NULL;
    size_t best_d = MAX(strlen(name) / 3, (size_t)2) + 1;
    for (size_t i = 0; i < n_config_keys; i++) {
        const struct config_key *k = &config_keys[i];
        if (!section_only && strcmp(k->section, section) != 0)
            continue;
        const char *candidate = section_only ? k->section : k->name;
        size_t d = distance(name, candidate);
        if (d < best_d) {
            best = candidate;
            best_d = d;
        }
    }
    return best;
}
