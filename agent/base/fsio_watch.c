// SPDX-License-Identifier: Apache-2.0
// Directory watches: one inotify descriptor, one watch per directory however many look at it.
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/inotify.h>

#include "base/fsio_real.h"

struct watched_dir {
    struct list link;
    struct list watches; // struct fs_watch
    int wd;              // -1: a place marker, or gone
};

enum {
    EVENTS = IN_CREATE | IN_MODIFY | IN_DELETE | IN_MOVED_FROM | IN_MOVED_TO | IN_ATTRIB | IN_MOVE_SELF,
};

static struct watched_dir *find_dir(struct fs_watcher *w, int wd)
{
    list_each(it, &w->dirs) {
        struct watched_dir *d = container_of(it, struct watched_dir, link);
        if (d->wd == wd && wd >= 0)
            return d;
    }
    return NULL;
}

static void forget_if_unused(struct fs_watcher *w, struct watched_dir *d)
{
    if (!list_empty(&d->watches))
        return;
    if (d->wd >= 0)
        inotify_rm_watch(w->fd, d->wd);
    list_del(&d->link);
    free(d);
}

// Tells everybody who looks at the directory. A marker keeps the place, and the directory alive, while callbacks come and go.
static void tell(struct watched_dir *d, const char *name)
{
    struct list mark = { NULL, NULL };
    struct list *at = d->watches.next;
    while (at != &d->watches) {
        list_add_tail(at->next, &mark);
        struct fs_watch *w = container_of(at, struct fs_watch, link);
        w->fn(w, name);
        at = mark.next;
        list_del(&mark);
    }
}

// The kernel has ended the watch: the directory is gone, moved away or unmounted. Each watch is over before it is told.
static void end_dir(struct watched_dir *d)
{
    struct list mark = { NULL, NULL };
    d->wd = -1;
    list_del(&d->link);                // from here on a watch of that path makes a new one
    list_add_tail(&d->watches, &mark); // keeps the directory from being freed by a callback
    while (d->watches.next != &mark) {
        struct fs_watch *w = container_of(d->watches.next, struct fs_watch, link);
        list_del(&w->link);
        w->impl = NULL;
        w->fn(w, NULL);
    }
    free(d);
}

static void tell_all(struct fs_watcher *w)
{
    struct watched_dir mark = { .wd = -1 };
    struct list *at = w->dirs.next;
    while (at != &w->dirs) {
        struct watched_dir *d = container_of(at, struct watched_dir, link);
        list_add_tail(at->next, &mark.link);
        tell(d, NULL);
        at = mark.link.next;
        forget_if_unused(w, d);
        list_del(&mark.link);
    }
}

static void on_event(struct fs_watcher *w, const struct inotify_event *ev)
{
    if (ev->mask & IN_Q_OVERFLOW) {
        tell_all(w);
        return;
    }
    struct watched_dir *d = find_dir(w, ev->wd);
    if (d == NULL) // of a watch removed meanwhile
        return;
    if (ev->mask & IN_IGNORED) {
        end_dir(d);
    } else if (ev->mask & IN_MOVE_SELF) {
        inotify_rm_watch(w->fd, d->wd); // IN_IGNORED follows
    } else if (ev->len > 0 && !fs_is_temporary(ev->name)) {
        tell(d, ev->name);
        forget_if_unused(w, d);
    }
}

static void on_readable(struct loop_fd *node, unsigned events UNUSED)
{
    struct fs_watcher *w = container_of(node, struct fs_watcher, node);
    _Alignas(struct inotify_event) char batch[4096];
    ssize_t n = read(w->fd, batch, sizeof(batch));
    for (ssize_t at = 0; at < n;) {
        const struct inotify_event *ev = (const void *)(batch + at);
        at += (ssize_t)(sizeof(*ev) + ev->len);
        on_event(w, ev);
    }
}

static int watcher_start(struct fs_watcher *w, struct err *e)
{
    if (w->fd >= 0)
        return 0;
    if (w->loop == NULL)
        return err_set(e, E_UNSUP, "this disk was made without a loop: it cannot watch");
    AUTO_CLOSE int fd = inotify_init1(IN_NONBLOCK | IN_CLOEXEC);
    if (fd < 0)
        return err_sys(e, errno, "creating a file watcher");
    int r = loop_fd_add(w->loop, &w->node, fd, LOOP_IN, on_readable, e);
    if (r == 0)
        w->fd = steal_fd(&fd);
    return r;
}

// By the descriptor's name under /proc, so that it is the directory that was resolved below the root.
static int add_watch(struct fs_watcher *w, int dir)
{
    char name[32];
    snprintf(name, sizeof(name), "/proc/self/fd/%d", dir);
    return inotify_add_watch(w->fd, name, EVENTS);
}

static struct watched_dir *get_dir(struct fs_watcher *w, int wd)
{
    struct watched_dir *d = find_dir(w, wd);
    if (d != NULL)
        return d;
    d = calloc(1, sizeof(*d));
    if (d == NULL) {
        inotify_rm_watch(w->fd, wd);
        return NULL;
    }
    d->wd = wd;
    list_init(&d->watches);
    list_add_tail(&w->dirs, &d->link);
    return d;
}

int fs_real_watch(struct disk *d, struct fs_watch *w, const char *dir, struct err *e)
{
    struct real_disk *r = fs_real(d);
    AUTO_CLOSE int fd = -1;
    int rc = watcher_start(&r->watcher, e);
    if (rc == 0)
        rc = fs_open(r, dir, O_PATH | O_DIRECTORY, 0, &fd, e);
    if (rc != 0)
        return rc;
    int wd = add_watch(&r->watcher, fd);
    if (wd < 0)
        return err_sys(e, errno, "watching %s", dir);
    struct watched_dir *wdir = get_dir(&r->watcher, wd);
    if (wdir == NULL)
        return err_set(e, E_NOMEM, "watching %s: no memory", dir);
    w->impl = wdir;
    list_add_tail(&wdir->watches, &w->link);
    return 0;
}

void fs_real_unwatch(struct disk *d, struct fs_watch *w)
{
    struct watched_dir *wdir = w->impl;
    if (wdir == NULL)
        return;
    w->impl = NULL;
    list_del(&w->link);
    forget_if_unused(&fs_real(d)->watcher, wdir);
}

// Watches still there are left unlinked, not told.
void fs_watcher_fini(struct fs_watcher *w)
{
    while (!list_empty(&w->dirs)) {
        struct watched_dir *d = container_of(w->dirs.next, struct watched_dir, link);
        while (!list_empty(&d->watches)) {
            struct fs_watch *x = container_of(d->watches.next, struct fs_watch, link);
            list_del(&x->link);
            x->impl = NULL;
        }
        list_del(&d->link);
        free(d);
    }
    if (w->fd >= 0) {
        loop_fd_del(w->loop, &w->node);
        close(w->fd);
    }
}
