// SPDX-License-Identifier: Apache-2.0
//
// main — the real seams, and the order in which an agent comes to life. `limpet shim` is the same binary and never gets here.
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <sys/prctl.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <sys/un.h>

#include "base/log.h"
#include "local/credentials.h"
#include "local/local.h"
#include "local/metrics.h"
#include "port/poke.h"
#include "port/runtimes.h"
#include "shim/shim.h"
#include "unpack/unpack.h"
#include "version.h"
#include "wire/certify.h"
#include "wire/enroll.h"
#include "wire/link.h"

enum { CRED_REREAD_MS = 60000, METRICS_RETRY_MS = 60000, LOCK_TRIES = 40, LOCK_WAIT_MS = 50 };

extern char **environ;
static char **saved_argv;

// Everything that lives as long as the process.
struct process {
    const struct config *config;
    const char *version;
    struct clock clock;
    struct loop *loop;
    struct disk *disk;      // the machine's, below [port] root
    struct disk *cred_disk; // where credential files are named from: our own root, also in a container
    struct port *port;
    struct transport *transport;
    struct cred cred;
    bool enrolled, from_identity, restart;
    struct err unusable; // why the credentials are of no use; cls 0: they are used, or there are none
    char node[254], ns[64];
    struct agent *agent;
    struct control *control;
    struct metrics_source metrics;
    struct web *web;
    struct link_watch link;
    struct enroll_renew *renew;
    struct timer cred_timer, metrics_timer;
    struct loop_fd signals;
    int lock_fd;
};

// Credentials.

static const char *env(const char *name)
{
    const char *v = getenv(name);
    return v != NULL && v[0] != '\0' ? v : NULL;
}

static void describe_credential(void *ctx, struct agent_credential *out)
{
    struct process *p = ctx;
    int64_t began;
    *out = (struct agent_credential){ .joined = p->from_identity, .server = p->cred.server };
    if (!cred_lifetime(&p->cred, &began, &out->expires_s))
        out->expires_s = 0;
    if (p->renew == NULL)
        return;
    struct certify_state s;
    bool wanted = enroll_renew_certificate(p->renew, &s);
    out->user = wanted ? p->cred.user : NULL;
    out->certified = wanted && p->cred.cert_pem != NULL;
    out->renewals = enroll_renew_count(p->renew);
    memcpy(out->reason, s.reason, sizeof(out->reason));
    memcpy(out->message, s.message, sizeof(out->message));
}

// The files are read again each minute and at once on 401; what cannot be read keeps the old value.
static void reread(struct process *p)
{
    struct err e = ERR_INIT;
    bool changed = false;
    int rc = cred_reload(&p->cred, p->cred_disk, &changed, &e);
    if (rc == 0 && changed)
        rc = http_set_identity(p->transport, p->cred.ca_pem, p->cred.cert_pem, p->cred.key_pem, &e);
    if (rc == 0 && changed)
        rc = http_set_bearer(p->transport, p->cred.token, &e);
    if (rc < 0)
        log_warn("cred", "kept-old class=%s error=\"%s\"", err_word(e.cls), e.msg);
    else if (changed)
        log_info("cred", "reread");
    if (changed && p->agent != NULL)
        sync_kick(p->agent->sync, true);
}

static bool has_files(const struct process *p)
{
    return p->cred.token_file != NULL || p->cred.ca_file != NULL || p->cred.cert_file != NULL;
}

// Everything that leads to the server.
static int reach_out(struct process *p, struct err *e)
{
    enum credential from;
    int rc = credentials_load(&p->cred, &from, p->config, p->disk, p->cred_disk, p->node, e);
    p->enrolled = rc == 0 && from != CREDENTIAL_NONE;
    p->from_identity = rc == 0 && from == CREDENTIAL_IDENTITY;
    credentials_names(p->config, &p->cred, p->node, p->ns);
    if (p->enrolled && p->ns[0] == '\0')
        return err_set(e, E_INVAL, "no namespace: set [node] namespace, or use `limpet join`");
    return p->enrolled ? cred_transport(&p->transport, p->loop, &p->cred, false, e) : rc;
}

// Credentials that cannot be used are no reason not to run: what the machine is to do is in the cache.
static void stay_offline(struct process *p, const struct err *e)
{
    if (strcmp(p->unusable.msg, e->msg) != 0)
        log_error("cred", "unusable class=%s error=\"%s\" remedy=\"put it right, or join again; it is tried again each minute\"",
                  err_word(e->cls), e->msg);
    p->unusable = *e;
    if (p->transport != NULL)
        transport_free(steal(p->transport));
    cred_fini(&p->cred);
    p->enrolled = false;
    p->from_identity = false;
}

static void try_again(struct process *p)
{
    struct err e = ERR_INIT;
    if (reach_out(p, &e) < 0) {
        stay_offline(p, &e);
        return;
    }
    log_info("cred", "usable-again");
    p->restart = true; // workloads stay
    loop_stop(p->loop);
}

// Of the identity: another one may lie there, or the one before it may be in use.
static void take(struct process *p, enum enroll_look found)
{
    if (found == ENROLL_OTHER) {
        log_info("cred", "identity-changed");
        p->restart = true; // workloads stay
        loop_stop(p->loop);
    } else if (found == ENROLL_SWITCHED) {
        sync_kick(p->agent->sync, true);
    }
}

static void look_at_credentials(struct process *p)
{
    if (p->unusable.cls != 0)
        try_again(p);
    else if (p->renew != NULL)
        take(p, enroll_renew_look(p->renew));
    else if (p->transport != NULL)
        reread(p);
}

static void on_cred_timer(struct timer *t)
{
    struct process *p = container_of(t, struct process, cred_timer);
    look_at_credentials(p);
    if ((p->unusable.cls != 0 || has_files(p)) && timer_in(p->loop, t, CRED_REREAD_MS) < 0)
        log_error("cred", "no-timer");
}

static void on_unauthorized(void *ctx)
{
    struct process *p = ctx;
    if (p->renew != NULL)
        take(p, enroll_renew_refused(p->renew));
    else
        reread(p);
}

static void on_link_up(struct link_watch *w)
{
    struct process *p = container_of(w, struct process, link);
    if (p->agent != NULL && p->agent->sync != NULL)
        sync_kick(p->agent->sync, false);
}

// Signals, the service manager, the lock.

static void on_signal(struct loop_fd *f, unsigned events)
{
    struct process *p = container_of(f, struct process, signals);
    struct signalfd_siginfo si;
    (void)events;
    while (read(f->fd, &si, sizeof(si)) == (ssize_t)sizeof(si)) {
        if (si.ssi_signo == SIGHUP) {
            look_at_credentials(p);
        } else {
            log_info("main", "stopping signal=%u", si.ssi_signo);
            loop_stop(p->loop);
        }
    }
}

static int watch_signals(struct process *p, struct err *e)
{
    sigset_t set;
    sigemptyset(&set);
    sigaddset(&set, SIGTERM);
    sigaddset(&set, SIGINT);
    sigaddset(&set, SIGHUP);
    signal(SIGPIPE, SIG_IGN);
    sigprocmask(SIG_BLOCK, &set, NULL);
    int fd = signalfd(-1, &set, SFD_NONBLOCK | SFD_CLOEXEC);
    if (fd < 0)
        return err_sys(e, errno, "signalfd");
    return loop_fd_add(p->loop, &p->signals, fd, LOOP_IN, on_signal, e);
}

static void notify(const char *state)
{
    const char *path = env("NOTIFY_SOCKET");
    struct sockaddr_un sa = { .sun_family = AF_UNIX };
    if (path == NULL || strlen(path) >= sizeof(sa.sun_path))
        return;
    int fd AUTO_CLOSE = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    memcpy(sa.sun_path, path, strlen(path));
    if (path[0] == '@')
        sa.sun_path[0] = '\0';
    socklen_t len = (socklen_t)(offsetof(struct sockaddr_un, sun_path) + strlen(path));
    if (fd >= 0 && sendto(fd, state, strlen(state), MSG_NOSIGNAL, (struct sockaddr *)&sa, len) < 0)
        log_warn("main", "service-manager-not-told state=%s", state);
}

static int take_lock(struct process *p, struct err *e)
{
    char path[512];
    snprintf(path, sizeof(path), "%s%s/agent.lock", p->disk->root, p->config->run_dir);
    p->lock_fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600);
    if (p->lock_fd < 0)
        return err_sys(e, errno, "%s", path);
    // A supervisor that a killed agent was just starting has the lock until it executes itself.
    for (int i = 0; flock(p->lock_fd, LOCK_EX | LOCK_NB) < 0; i++) {
        if (i < LOCK_TRIES)
            (void)poll(NULL, 0, LOCK_WAIT_MS);
        else
            return err_set(e, E_BUSY, "an agent runs already with run directory %s; see `limpet status`", p->config->run_dir);
    }
    return 0;
}

static int make_dirs(struct process *p, struct err *e)
{
    const struct disk_ops *o = p->disk->ops;
    struct err why = ERR_INIT;
    int rc = o->mkdirs(p->disk, p->config->state_dir, 0700, 0, e);
    if (rc == 0)
        rc = o->mkdirs(p->disk, p->config->run_dir, 0755, FS_NOSYNC, e);
    if (rc == 0 && o->mkdirs(p->disk, p->config->log_dir, 0750, FS_NOSYNC, &why) < 0)
        log_warn("main", "no-log-directory error=\"%s\"", why.msg); // on a read-only disk: the workloads run without
    return rc;
}

static int open_port(struct process *p, struct err *e)
{
    static const char self[] = "/proc/self/exe";
    const struct config *c = p->config;
    struct exec_port_conf pc = { .run_dir = c->run_dir, .log_dir = c->log_dir, .self = self, .cgroup = c->port_cgroup };
    struct systemd_port_conf sc = { .unit_dir = c->port_unit_dir, .run_dir = c->run_dir, .state_dir = c->state_dir, .self = self };
    struct container_port_conf cc = { .tool = c->port_container_tool, .run_dir = c->run_dir, .state_dir = c->state_dir };
    struct port *ports[3];
    if (strcmp(c->port_name, "null") == 0)
        return port_null_new(&p->port, p->loop, e);
    int rc = port_exec_new(&ports[0], p->loop, p->disk, &pc, e);
    if (rc < 0)
        return rc;
    rc = port_systemd_new(&ports[1], ports[0], p->loop, p->disk, &sc, e);
    if (rc < 0) {
        ports[0]->ops->free(ports[0]);
        return rc;
    }
    rc = port_container_new(&ports[2], ports[0], p->loop, p->disk, &cc, e);
    if (rc < 0) {
        ports[1]->ops->free(ports[1]);
        ports[0]->ops->free(ports[0]);
        return rc;
    }
    return port_runtimes_new(&p->port, ports, ARRAY_LEN(ports), c->port_name, e);
}

static void on_restart(void *ctx)
{
    struct process *p = ctx;
    p->restart = true;
    loop_stop(p->loop);
}

static void on_reload(void *ctx)
{
    look_at_credentials(ctx);
}

// Birth, in order; each step needs the ones before it.

static int open_seams(struct process *p, struct err *e)
{
    struct loop_backend *b;
    signal(SIGXFSZ, SIG_IGN); // a write over a limit of ours is an error; our shims inherit this, what they run does not
    clock_real_init(&p->clock);
    p->clock.always = p->config->clock_trust == 1;
    p->clock.built_us = LIMPET_BUILD_EPOCH * INT64_C(1000000);
    clock_floor(&p->clock, p->clock.built_us);
    log_target(p->config->log_target, p->config->log_socket);
    log_setup(p->config->log_level, p->config->log_format, &p->clock);
    int rc = loop_backend_epoll(&b, e);
    if (rc == 0)
        rc = loop_new(&p->loop, &p->clock, b, e);
    if (rc == 0)
        rc = disk_real_new(&p->disk, p->loop, p->config->port_root != NULL ? p->config->port_root : "", e);
    if (rc == 0)
        rc = disk_real_new(&p->cred_disk, NULL, "", e);
    if (rc == 0)
        rc = make_dirs(p, e);
    if (rc == 0)
        rc = take_lock(p, e);
    if (rc == 0)
        rc = watch_signals(p, e);
    return rc < 0 ? rc : open_port(p, e);
}

static int open_agent(struct process *p, struct err *e)
{
    struct agent_seams seams = { .loop = p->loop, .clock = &p->clock, .disk = p->disk, .port = p->port, .transport = p->transport };
    struct agent_conf ac = {
        .config = p->config,
        .node = p->node,
        .ns = p->ns,
        .cluster = p->cred.cluster,
        .unauthorized = on_unauthorized,
        .credential = describe_credential,
        .restart = on_restart,
        .ctx = p,
    };
    int rc = agent_new(&p->agent, &seams, &ac, e);
    if (rc == 0 && p->from_identity)
        rc = enroll_renew_new(&p->renew, p->loop, &p->agent->kube, p->disk, p->config->state_dir, p->node, &p->cred, p->transport, e);
    return rc < 0 ? rc : agent_start(p->agent, e);
}

// What cannot be served now is no reason not to run; what can never be is a mistake in the configuration.
static int try_metrics(struct process *p, struct err *e)
{
    struct err why = ERR_INIT;
    int rc = web_start(&p->web, p->loop, p->config->metrics_listen, metrics_answer, &p->metrics, &why);
    if (rc == 0)
        return 0;
    if (rc == E_INVAL || rc == E_UNSUP) {
        *e = why;
        return err_wrap(e, "[metrics] listen");
    }
    log_error("main", "no-metrics error=\"%s\" remedy=\"it is tried again each minute\"", why.msg);
    return timer_in(p->loop, &p->metrics_timer, METRICS_RETRY_MS) < 0 ? err_set(e, E_NOMEM, "timer") : 0;
}

static void on_metrics_timer(struct timer *t)
{
    struct err e = ERR_INIT;
    if (try_metrics(container_of(t, struct process, metrics_timer), &e) < 0)
        log_error("main", "no-metrics error=\"%s\"", e.msg);
}

static int serve_metrics(struct process *p, struct err *e)
{
    const char *listen = p->config->metrics_listen;
    timer_init(&p->metrics_timer, on_metrics_timer);
    if (listen == NULL || listen[0] == '\0')
        return 0;
    p->metrics = (struct metrics_source){ .agent = p->agent,
                                          .version = p->version,
                                          .server = p->cred.server != NULL ? p->cred.server : "",
                                          .started_us = clock_wall_us(&p->clock) };
    return try_metrics(p, e);
}

static int open_surroundings(struct process *p, struct err *e)
{
    struct control_conf cc = { .agent = p->agent,
                               .version = p->version,
                               .server = p->cred.server != NULL ? p->cred.server : "",
                               .trouble = p->unusable.msg,
                               .restart = on_restart,
                               .reload = on_reload,
                               .ctx = p };
    struct err le = ERR_INIT;
    if (link_watch_start(&p->link, p->loop, on_link_up, &le) < 0)
        log_info("main", "no-link-events why=\"%s\"", le.msg);
    timer_init(&p->cred_timer, on_cred_timer);
    if ((p->unusable.cls != 0 || (p->transport != NULL && has_files(p))) && timer_in(p->loop, &p->cred_timer, CRED_REREAD_MS) < 0)
        return err_set(e, E_NOMEM, "timer");
    int rc = control_start(&p->control, p->loop, p->config, &cc, e);
    return rc < 0 ? rc : serve_metrics(p, e);
}

static int live(struct process *p, struct err *e)
{
    struct err why = ERR_INIT;
    int rc = open_seams(p, e);
    if (rc == 0 && reach_out(p, &why) < 0)
        stay_offline(p, &why);
    if (rc == 0)
        rc = open_agent(p, e);
    if (rc == 0)
        rc = open_surroundings(p, e);
    if (rc < 0)
        return rc;
    log_info("main", "started version=%s node=%s namespace=%s server=%s", p->version, p->node, p->ns,
             p->enrolled ? p->cred.server : "none");
    notify("READY=1");
    return loop_run(p->loop, e);
}

static void die(struct process *p)
{
    notify("STOPPING=1");
    web_stop(p->web);
    control_stop(p->control);
    if (p->loop != NULL) {
        link_watch_stop(&p->link);
        timer_cancel(p->loop, &p->cred_timer);
        timer_cancel(p->loop, &p->metrics_timer);
    }
    enroll_renew_free(p->renew);
    agent_stop(p->agent);
    if (p->transport != NULL)
        transport_free(p->transport);
    if (p->port != NULL)
        p->port->ops->free(p->port);
    if (p->loop != NULL) {
        loop_fd_del(p->loop, &p->signals);
        if (p->signals.fd > 0)
            close(p->signals.fd);
    }
    if (p->disk != NULL)
        disk_free(p->disk);
    if (p->cred_disk != NULL)
        disk_free(p->cred_disk);
    cred_fini(&p->cred);
    loop_free(p->loop);
    if (p->lock_fd >= 0)
        close(p->lock_fd);
}

static int run(const struct config *c, const char *version)
{
    struct process p = { .config = c, .version = version, .lock_fd = -1 };
    struct err e = ERR_INIT;
    prctl(PR_SET_DUMPABLE, 0); // the token must not reach a core file
    int rc = live(&p, &e);
    if (rc < 0)
        log_error("main", "cannot-run class=%s error=\"%s\"", err_word(e.cls), e.msg);
    die(&p);
    if (rc == 0 && p.restart)
        execv("/proc/self/exe", saved_argv);
    return rc < 0 ? EXIT_FAIL : EXIT_OK;
}

int main(int argc, char **argv)
{
    static const struct cli_hooks hooks = { .run = run };
    saved_argv = argv;
    if (argc > 1 && strcmp(argv[1], "shim") == 0)
        return shim_main(argc, argv);
    if (argc > 1 && strcmp(argv[1], "poke") == 0)
        return poke_main(argc, argv);
    if (argc > 1 && strcmp(argv[1], "unpack") == 0)
        return unpack_main(argc, argv);
    return cli_main(argc, argv, &hooks);
}
