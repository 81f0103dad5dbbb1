// SPDX-License-Identifier: Apache-2.0
// fsio — the seam for the disk: whole small files, atomically, below a root, never through a symlink.
//
// Everything the agent reads or writes outside its SQLite store passes here. A path is absolute and is resolved below
// disk->root ("" for the machine's own root, "/host" in a DaemonSet). With FS_GUARDED no component may be a symlink, `..` or
// a magic link (openat2 RESOLVE_NO_SYMLINKS | RESOLVE_IN_ROOT; a walk with O_NOFOLLOW where the kernel lacks it), so a managed
// file cannot be redirected out of the guarded tree. Blocking: yes, these are the fsyncs that may block the loop.
#ifndef BASE_FSIO_H
#define BASE_FSIO_H

#include "base/buf.h"
#include "base/err.h"
#include "base/loop.h"

enum fs_type { FS_FILE, FS_DIR, FS_LINK, FS_OTHER };

struct fs_stat {
    enum fs_type type;
    uint32_t mode; // permission bits, 07777
    uint32_t uid, gid;
    int64_t size;
    int64_t mtime_us;
    uint64_t inode; // 0 = the disk has no such number
};

enum {
    FS_GUARDED = 1, // refuse symlinks anywhere in the path (E_FORBIDDEN)
    FS_NOSYNC = 2,  // state that dies with the boot (/run): no fsync
    FS_EXCL = 4,    // fail with E_EXISTS when it is there
};

// Directory watch: fn is called on any create, modify, delete, move or attribute change of `name` in it; not for write's own
// temporaries. Zeroed before the first watch; fn may unwatch this one or any other.
struct fs_watch {
    // name NULL: events were lost, look at everything. Is !list_linked(&w->link) then, the directory is gone and the watch over.
    void (*fn)(struct fs_watch *w, const char *name);
    struct list link;
    void *impl;
};

struct disk;
struct disk_ops {
    // The whole file in the place of what out held; unchanged on error. At most max bytes; a longer file is E_TOOBIG. E_NOTFOUND
    // only for ENOENT; not a regular file is E_INVAL.
    int (*read)(struct disk *d, const char *path, size_t max, unsigned flags, struct buf *out, struct err *e);
    // Temporary file in the same directory, fchown/fchmod, fsync, rename, fsync of the directory. On any error the old file
    // stands untouched and no temporary is left (after a failed fsync of the directory the new file stands, not yet durable).
    // After a crash one temporary may be left, which the next write of the same file removes. A symlink in the file's place is
    // replaced, under FS_GUARDED refused; a directory, device, FIFO or socket is refused. uid/gid UINT32_MAX = leave the creator's.
    int (*write)(struct disk *d, const char *path, const void *p, size_t n, uint32_t mode, uint32_t uid, uint32_t gid, unsigned flags,
                 struct err *e);
    // Puts bytes behind the first `at` of a file and cuts off what came after those; at 0 makes the file (0600). For large files that are
    // compared with a sum before they count: not atomic, nothing is flushed, and a part may be written when it fails. E_INVAL: it is shorter
    // than `at`, or no regular file.
    int (*append)(struct disk *d, const char *path, int64_t at, const void *p, size_t n, unsigned flags, struct err *e);
    int (*stat)(struct disk *d, const char *path, unsigned flags, struct fs_stat *out, struct err *e); // of the link itself
    // Of a file or directory, never through a symlink; under FS_GUARDED not of a file with a second hard link (E_FORBIDDEN).
    int (*chattr)(struct disk *d, const char *path, uint32_t mode, uint32_t uid, uint32_t gid, unsigned flags, struct err *e);
    int (*unlink)(struct disk *d, const char *path, unsigned flags, struct err *e); // absent is success
    // Another name in the same directory, in place of what has it; durable. E_NOTFOUND, E_INVAL for another directory.
    int (*rename)(struct disk *d, const char *from, const char *to, unsigned flags, struct err *e);
    int (*mkdirs)(struct disk *d, const char *path, uint32_t mode, unsigned flags, struct err *e); // existing is success
    // An empty directory; absent is success. E_EXISTS: it is not empty, or something is mounted there; E_INVAL: no directory.
    int (*rmdir)(struct disk *d, const char *path, unsigned flags, struct err *e);
    // Below the agent's own directories only; absent is success. Never follows a symlink nor enters a mount; 64 levels at most.
    int (*rmtree)(struct disk *d, const char *path, struct err *e);
    int (*list)(struct disk *d, const char *path, int (*fn)(void *ctx, const char *name, enum fs_type t), void *ctx,
                struct err *e); // in no order; fn != 0 stops and is returned
    int (*free_bytes)(struct disk *d, const char *path, uint64_t *avail, uint64_t *total, struct err *e);
    int (*watch)(struct disk *d, struct fs_watch *w, const char *dir, struct err *e);
    void (*unwatch)(struct disk *d, struct fs_watch *w); // safe when not watching
    // uid/gid of a name, "" = UINT32_MAX; digits are taken as they are, with the group that etc/passwd knows for them or UINT32_MAX.
    // E_NOTFOUND: no such user.
    int (*user)(struct disk *d, const char *name, uint32_t *uid, uint32_t *gid, struct err *e);
    int (*group)(struct disk *d, const char *name, uint32_t *gid, struct err *e);
    void (*free)(struct disk *d);
};

struct disk {
    const struct disk_ops *ops;
    const char *root;       // "" or an absolute path without trailing slash; owned by the creator
    const char *sqlite_vfs; // name of the registered VFS for the store, NULL = SQLite's own
};

// The machine's own disk. `loop` may be NULL when nothing will be watched.
int disk_real_new(struct disk **out, struct loop *l, const char *root, struct err *e) MUST_USE;
void disk_free(struct disk *d);

// Thin callers of the vtable, so that uses read well.
int fs_read(struct disk *d, const char *path, size_t max, unsigned flags, struct buf *out, struct err *e) MUST_USE;
int fs_write(struct disk *d, const char *path, const void *p, size_t n, uint32_t mode, unsigned flags, struct err *e) MUST_USE;

// Lexical check: absolute, no empty, "." or ".." component, no NUL, shorter than PATH_MAX. E_INVAL says which.
int path_check(const char *path, struct err *e) MUST_USE;
// True when `path` lies at or below `dir` (lexically; both pass path_check).
bool path_below(const char *path, const char *dir);

#endif
