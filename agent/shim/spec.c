// SPDX-License-Identifier: Apache-2.0
#include "shim/spec.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

static const char magic[8] = "limpet1";
static const char *const path_alone[] = { "PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin", NULL };

// The strings in the order in which they lie in the file. Called twice: to measure, and to copy.
struct sink {
    char *at; // NULL = only measure
    size_t len;
};

static void put(struct sink *s, const char *text)
{
    size_t n = strlen(text) + 1;
    if (s->at != NULL)
        memcpy(s->at + s->len, text, n);
    s->len += n;
}

static uint32_t put_all(struct sink *s, const char *const *list)
{
    uint32_t n = 0;
    for (; list[n] != NULL; n++)
        put(s, list[n]);
    return n;
}

static void put_strings(struct sink *s, struct shim_spec *head, const struct exec_env *x)
{
    const char *const *env = x->env != NULL ? x->env : path_alone;
    char mark[sizeof(SPEC_MARK "=") + SPEC_PATH_MAX];
    head->argc = put_all(s, x->argv);
    head->envc = 0;
    if (head->uid[0] != '\0') {
        snprintf(mark, sizeof(mark), SPEC_MARK "=%s", head->mark);
        put(s, mark);
        head->envc = 1;
    }
    head->envc += put_all(s, env);
    put(s, x->workdir != NULL ? x->workdir : "/");
}

static int copy_name(char *out, size_t size, const char *name, const char *what, struct err *e)
{
    if (name != NULL && strlen(name) >= size)
        return err_set(e, E_INVAL, "%s: longer than %zu bytes", what, size - 1);
    snprintf(out, size, "%s", name != NULL ? name : "");
    return 0;
}

static int check_env(const struct exec_env *x, struct err *e)
{
    if (x->argv == NULL || x->argv[0] == NULL || x->argv[0][0] == '\0')
        return err_set(e, E_INVAL, "no command");
    for (size_t i = 0; x->env != NULL && x->env[i] != NULL; i++)
        if (strchr(x->env[i], '=') == NULL || x->env[i][0] == '=')
            return err_set(e, E_INVAL, "environment entry %zu is not NAME=value", i + 1); // its text may be a secret
    if (x->n_rlimits > RLIMITS_MAX)
        return err_set(e, E_INVAL, "more than %d resource limits", RLIMITS_MAX);
    return 0;
}

static int fill_head(struct shim_spec *h, const struct exec_env *x, struct err *e)
{
    memcpy(h->magic, magic, sizeof(magic));
    h->size = sizeof(*h);
    h->n_rlimits = (uint32_t)x->n_rlimits;
    for (size_t i = 0; i < x->n_rlimits; i++)
        h->rlimits[i] = x->rlimits[i];
    int r = copy_name(h->user, sizeof(h->user), x->user, "user", e);
    if (r == 0)
        r = copy_name(h->group, sizeof(h->group), x->group, "group", e);
    return r;
}

// Written through a mapping, not a buffer: no second copy of the secrets to wipe.
static int fill_file(int fd, struct shim_spec *h, const struct exec_env *x, struct err *e)
{
    size_t size = sizeof(*h) + h->strings;
    if (ftruncate(fd, (off_t)size) != 0)
        return err_sys(e, errno, "handing over the command");
    char *map = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    if (map == MAP_FAILED)
        return err_sys(e, errno, "handing over the command");
    struct sink s = { .at = map + sizeof(*h) };
    put_strings(&s, h, x);
    memcpy(map, h, sizeof(*h));
    munmap(map, size);
    return 0;
}

int spec_write(int *fd_out, const struct shim_spec *head, const struct exec_env *x, struct err *e)
{
    struct shim_spec h = *head;
    int r = check_env(x, e);
    if (r == 0)
        r = fill_head(&h, x, e);
    if (r != 0)
        return r;
    struct sink measure = { NULL, 0 };
    put_strings(&measure, &h, x);
    if (measure.len > SPEC_STRINGS_MAX)
        return err_set(e, E_TOOBIG, "command and environment are over %d bytes", SPEC_STRINGS_MAX);
    h.strings = (uint32_t)measure.len;
    AUTO_CLOSE int fd = memfd_create("limpet-spec", MFD_CLOEXEC);
    if (fd < 0)
        return err_sys(e, errno, "memory file for the command");
    r = fill_file(fd, &h, x, e);
    if (r == 0)
        *fd_out = steal_fd(&fd);
    return r;
}

static bool is_terminated(const char *s, size_t size)
{
    return memchr(s, '\0', size) != NULL;
}

bool spec_read(int fd, struct shim_spec *out)
{
    return pread(fd, out, sizeof(*out), 0) == (ssize_t)sizeof(*out) && memcmp(out->magic, magic, sizeof(magic)) == 0 &&
           out->size == sizeof(*out) && out->strings <= SPEC_STRINGS_MAX && out->n_rlimits <= RLIMITS_MAX && out->argc > 0 &&
           is_terminated(out->uid, sizeof(out->uid)) && is_terminated(out->owner, sizeof(out->owner)) &&
           is_terminated(out->revision, sizeof(out->revision)) && is_terminated(out->log_dir, sizeof(out->log_dir)) &&
           is_terminated(out->log_name, sizeof(out->log_name)) && is_terminated(out->user, sizeof(out->user)) &&
           is_terminated(out->group, sizeof(out->group)) && is_terminated(out->cgroup, sizeof(out->cgroup));
}

// One string of the mapping; NULL when it does not end before the mapping does.
static char *take(char **at, const char *end)
{
    char *s = *at;
    char *nul = s < end ? memchr(s, '\0', (size_t)(end - s)) : NULL;
    if (nul == NULL)
        return NULL;
    *at = nul + 1;
    return s;
}

static char **take_list(char **at, const char *end, uint32_t n)
{
    char **list = n < SPEC_STRINGS_MAX ? calloc((size_t)n + 1, sizeof(*list)) : NULL;
    for (uint32_t i = 0; list != NULL && i < n; i++)
        if ((list[i] = take(at, end)) == NULL) {
            free(list);
            return NULL;
        }
    return list;
}

bool spec_map(int fd, const struct shim_spec *head, struct spec_strings *out)
{
    size_t size = sizeof(*head) + head->strings;
    char *map = mmap(NULL, size, PROT_READ, MAP_PRIVATE, fd, 0);
    if (map == MAP_FAILED)
        return false;
    char *at = map + sizeof(*head);
    out->argv = take_list(&at, map + size, head->argc);
    out->env = take_list(&at, map + size, head->envc);
    out->workdir = take(&at, map + size);
    if (out->argv != NULL && out->env != NULL && out->workdir != NULL)
        return true;
    free(out->argv);
    free(out->env);
    munmap(map, size);
    return false;
}
