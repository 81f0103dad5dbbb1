// SPDX-License-Identifier: Apache-2.0
// fsio_real — what the files of the machine's own disk share. Private to agent/base/fsio_*.c.
#ifndef BASE_FSIO_REAL_H
#define BASE_FSIO_REAL_H

#include <limits.h>
#include <sys/stat.h>

#include "base/fsio.h"

// One inotify descriptor for all watches; made with the first.
struct fs_watcher {
    int fd; // -1 = none yet
    struct loop_fd node;
    struct loop *loop;
    struct list dirs; // struct watched_dir
};

struct real_disk {
    struct disk base;
    struct fs_watcher watcher;
    int root_fd;
    bool has_openat2;
    char root[];
};

static inline struct real_disk *fs_real(struct disk *d)
{
    return container_of(d, struct real_disk, base);
}

// Hands on an error that was first looked at aside.
static inline int fs_fail(struct err *e, const struct err *why)
{
    if (e != NULL)
        *e = *why;
    return why->cls;
}

// fsio_resolve.c: from a path to descriptors. Every path passes path_check() here.

// A final name and the directory that holds it.
struct fs_place {
    int dir;          // O_PATH
    const char *name; // points into the path; "." for "/"
};
void fs_place_fini(struct fs_place *p);
#define AUTO_PLACE CLEANUP(fs_place_fini)
#define FS_PLACE_INIT \
    {                 \
        -1, NULL      \
    }

bool fs_probe_openat2(void);
// Opens what is there (no O_CREAT). Under FS_GUARDED a symlink is E_FORBIDDEN, also as the last component unless oflags holds
// O_PATH|O_NOFOLLOW.
int fs_open(struct real_disk *r, const char *path, int oflags, unsigned flags, int *fd, struct err *e) MUST_USE;
int fs_place(struct real_disk *r, const char *path, unsigned flags, struct fs_place *out, struct err *e) MUST_USE;
// What stands at the place, never following it. E_FORBIDDEN for a symlink under FS_GUARDED.
int fs_place_stat(const struct fs_place *p, const char *path, unsigned flags, struct stat *st, struct err *e) MUST_USE;
// Makes names in the directory durable; nothing under FS_NOSYNC.
int fs_sync_dir(int dir, const char *path, unsigned flags, struct err *e) MUST_USE;
enum fs_type fs_type_of(mode_t mode);

// fsio_file.c
int fs_real_read(struct disk *d, const char *path, size_t max, unsigned flags, struct buf *out, struct err *e);
int fs_real_write(struct disk *d, const char *path, const void *p, size_t n, uint32_t mode, uint32_t uid, uint32_t gid, unsigned flags,
                  struct err *e);
int fs_real_append(struct disk *d, const char *path, int64_t at, const void *p, size_t n, unsigned flags, struct err *e);
int fs_real_stat(struct disk *d, const char *path, unsigned flags, struct fs_stat *out, struct err *e);
int fs_real_chattr(struct disk *d, const char *path, uint32_t mode, uint32_t uid, uint32_t gid, unsigned flags, struct err *e);
int fs_real_unlink(struct disk *d, const char *path, unsigned flags, struct err *e);
int fs_real_rename(struct disk *d, const char *from, const char *to, unsigned flags, struct err *e);
bool fs_is_temporary(const char *name); // one of write's own, or its leftover

// fsio_tree.c
int fs_real_mkdirs(struct disk *d, const char *path, uint32_t mode, unsigned flags, struct err *e);
int fs_real_rmdir(struct disk *d, const char *path, unsigned flags, struct err *e);
int fs_real_rmtree(struct disk *d, const char *path, struct err *e);
int fs_real_list(struct disk *d, const char *path, int (*fn)(void *ctx, const char *name, enum fs_type t), void *ctx, struct err *e);

// fsio_watch.c
int fs_real_watch(struct disk *d, struct fs_watch *w, const char *dir, struct err *e);
void fs_real_unwatch(struct disk *d, struct fs_watch *w);
void fs_watcher_fini(struct fs_watcher *w);

// fsio_users.c
int fs_real_user(struct disk *d, const char *name, uint32_t *uid, uint32_t *gid, struct err *e);
int fs_real_group(struct disk *d, const char *name, uint32_t *gid, struct err *e);

#endif
