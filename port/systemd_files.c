// SPDX-License-Identifier: Apache-2.0
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#include "base/log.h"
#include "port/poke.h"
#include "port/systemd.h"

#define RUN_UNITS "/run/systemd/system"
#define WANTS "multi-user.target.wants"

static const char *unit_dir(const struct sd_port *p, bool boot)
{
    return boot ? p->unit_dir : RUN_UNITS;
}

static void unit_path(const struct sd_port *p, const char *unit, bool boot, char out[UNIT_PATH_MAX])
{
    snprintf(out, UNIT_PATH_MAX, "%s/%s", unit_dir(p, boot), unit);
}

// Secrets of what dies with the boot die with it.
static void env_path(const struct sd_inst *x, char out[UNIT_PATH_MAX])
{
    if (x->boot)
        snprintf(out, UNIT_PATH_MAX, "%s/units/%s.env", x->port->state_dir, x->node.i.uid);
    else
        snprintf(out, UNIT_PATH_MAX, "%s/%s/env", x->port->records.dir, x->node.i.uid);
}

// --- reading

static int read_unit(struct sd_port *p, const char *path, struct unit_meta *m, struct err *e)
{
    AUTO_BUF struct buf text = BUF_INIT(UNIT_TEXT_MAX);
    int rc = fs_read(p->disk, path, UNIT_TEXT_MAX, 0, &text, e);
    if (rc == 0 && !unit_parse(buf_str(&text), m))
        rc = err_set(e, E_EXISTS, "%.200s is there and was not made by limpet; it is left alone", path);
    return rc;
}

int sd_unit_read(struct sd_port *p, const char *unit, struct unit_meta *m, bool *boot, struct err *e)
{
    int rc = E_NOTFOUND;
    char path[UNIT_PATH_MAX], uid[INST_UID_MAX];
    for (int i = 0; i < 2 && rc == E_NOTFOUND; i++) {
        *boot = i == 0;
        unit_path(p, unit, *boot, path);
        rc = read_unit(p, path, m, e);
    }
    if (rc == 0 && (!unit_uid(unit, uid) || strcmp(uid, m->uid) != 0))
        return err_set(e, E_EXISTS, "%.200s says that it is instance %s; it is left alone", path, m->uid);
    return rc;
}

struct names {
    struct sd_port *p;
    void (*fn)(struct sd_port *p, const char *unit);
};

static int take_name(void *ctx, const char *name, enum fs_type t)
{
    struct names *n = ctx;
    char uid[INST_UID_MAX];
    if (t == FS_FILE && unit_uid(name, uid))
        n->fn(n->p, name);
    return 0;
}

int sd_units_each(struct sd_port *p, void (*fn)(struct sd_port *p, const char *unit), struct err *e)
{
    struct names n = { p, fn };
    int rc = 0;
    for (int i = 0; i < 2 && rc == 0; i++) {
        rc = p->disk->ops->list(p->disk, unit_dir(p, i == 0), take_name, &n, e);
        rc = rc == E_NOTFOUND ? 0 : rc;
    }
    return rc;
}

// A unit of this name that the distribution or somebody else brought would be hidden by ours, or hide it.
static int check_foreign(const char *unit, struct err *e)
{
    static const char *const dirs[] = { "/etc/systemd/system", RUN_UNITS, "/usr/local/lib/systemd/system", "/usr/lib/systemd/system",
                                        "/lib/systemd/system" };
    char path[UNIT_PATH_MAX];
    struct stat st;
    for (size_t i = 0; i < ARRAY_LEN(dirs); i++) {
        snprintf(path, sizeof(path), "%s/%s", dirs[i], unit);
        if (lstat(path, &st) == 0)
            return err_set(e, E_EXISTS, "%.200s is there already; it is left alone", path);
    }
    return 0;
}

// --- writing

static int write_env(struct sd_inst *x, const struct inst_spec *s, const char *path, struct err *e)
{
    CLEANUP(buf_wipe) struct buf text = BUF_INIT(UNIT_ENV_MAX);
    struct disk *d = x->port->disk;
    char dir[UNIT_PATH_MAX];
    int rc = unit_env_text(s->exec.env, &text, e);
    if (rc < 0)
        return rc;
    snprintf(dir, sizeof(dir), "%.*s", (int)(strrchr(path, '/') - path), path);
    rc = d->ops->mkdirs(d, dir, 0700, x->boot ? 0 : FS_NOSYNC, e);
    return rc < 0 ? rc : d->ops->write(d, path, buf_str(&text), text.len, 0600, 0, 0, x->boot ? 0 : FS_NOSYNC, e);
}

static int write_unit(struct sd_inst *x, const struct inst_spec *s, const char *env, struct err *e)
{
    AUTO_BUF struct buf text = BUF_INIT(UNIT_TEXT_MAX);
    struct sd_port *p = x->port;
    char path[UNIT_PATH_MAX];
    struct unit_place w = { .self = p->self, .records = p->records.dir, .env_file = env, .program = x->program, .version = p->version };
    int rc = unit_text(s, &w, &text, e);
    if (rc < 0)
        return rc;
    unit_path(p, x->unit, x->boot, path);
    rc = p->disk->ops->mkdirs(p->disk, unit_dir(p, x->boot), 0755, x->boot ? 0 : FS_NOSYNC, e);
    return rc < 0 ? rc : fs_write(p->disk, path, buf_str(&text), text.len, 0644, x->boot ? 0 : FS_NOSYNC, e);
}

static void link_path(const struct sd_inst *x, char out[UNIT_PATH_MAX])
{
    snprintf(out, UNIT_PATH_MAX, "%s/" WANTS "/%s", x->port->unit_dir, x->unit);
}

// As `systemctl enable` does, which would reload the manager once a unit.
static int enable(struct sd_inst *x, struct err *e)
{
    char path[UNIT_PATH_MAX], to[UNIT_PATH_MAX];
    struct sd_port *p = x->port;
    snprintf(path, sizeof(path), "%s/" WANTS, p->unit_dir);
    int rc = p->disk->ops->mkdirs(p->disk, path, 0755, 0, e);
    if (rc < 0)
        return rc;
    link_path(x, path);
    snprintf(to, sizeof(to), "%s/%s", p->unit_dir, x->unit);
    if (symlink(to, path) != 0 && errno != EEXIST)
        return err_sys(e, errno, "enabling %s", x->unit);
    return 0;
}

static int make(struct sd_inst *x, const struct inst_spec *s, struct err *e)
{
    char env[UNIT_PATH_MAX];
    env_path(x, env);
    int rc = write_env(x, s, env, e);
    if (rc == 0)
        rc = write_unit(x, s, env, e);
    if (rc == 0 && x->boot)
        rc = enable(x, e);
    if (rc < 0)
        (void)!sd_files_remove(x, NULL);
    return rc;
}

int sd_files_make(struct sd_inst *x, const struct inst_spec *s, struct err *e)
{
    struct sd_port *p = x->port;
    int rc = check_foreign(x->unit, e);
    x->boot = s->restart != INST_RESTART_NO && !p->unit_dir_refused;
    if (rc == 0)
        rc = make(x, s, e);
    if (rc != E_FORBIDDEN || !x->boot || e == NULL || e->sys != EROFS)
        return rc;
    log_warn("systemd", "read-only dir=%s detail=\"units go to " RUN_UNITS ": they do not start at boot before the agent does\"",
             p->unit_dir);
    p->unit_dir_refused = true;
    x->boot = false;
    *e = ERR_INIT;
    return make(x, s, e);
}

int sd_files_remove(struct sd_inst *x, struct err *e)
{
    struct disk *d = x->port->disk;
    char path[UNIT_PATH_MAX];
    int rc = 0;
    if (x->boot) {
        link_path(x, path);
        rc = d->ops->unlink(d, path, 0, e);
    }
    unit_path(x->port, x->unit, x->boot, path);
    if (rc == 0)
        rc = d->ops->unlink(d, path, x->boot ? 0 : FS_NOSYNC, e);
    env_path(x, path);
    if (rc == 0)
        rc = d->ops->unlink(d, path, x->boot ? 0 : FS_NOSYNC, e);
    return rc;
}

// --- records of the boot

void sd_records_remove(struct sd_port *p, const char *uid)
{
    static const char *const names[] = { POKE_START, POKE_EXIT, SD_STOP_RECORD, SD_SEEN_RECORD, "env" };
    records_remove(&p->records, uid, names, ARRAY_LEN(names));
}
