// SPDX-License-Identifier: Apache-2.0
#include "unpack/unpack.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/capability.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>

#include "base/fsio.h"
#include "base/num.h"
#include "base/sha256.h"
#include "unpack/packed.h"
#include "unpack/tree.h"

enum { CHUNK = 64 * 1024, CPU_SECONDS = 1800, OPEN_FILES = 64, PATH_BYTES = 4096 };

// zstd's largest window, and the program itself. A build with sanitizers keeps terabytes of addresses for them.
#ifdef __SANITIZE_ADDRESS__
#define MEMORY_MAX INT64_MAX
#else
#define MEMORY_MAX (INT64_C(320) << 20)
#endif

enum form { FORM_FILE, FORM_TAR_GZ, FORM_TAR_ZST };

struct job {
    const char *file, *sha256, *dir;
    enum form form;
    int64_t max_bytes, max_entries, reserve;
    int in, parent;                // the packed file; the directory that holds `dir`
    char fresh[PATH_BYTES];        // "<dir>.new"
    const char *name, *fresh_name; // their last components
    struct tree tree;
    struct tar_sink sink;
    struct tar_reader tar;
};

// --- The command line

static int read_form(const char *word, enum form *out, struct err *e)
{
    static const char *const words[] = { [FORM_FILE] = "file", [FORM_TAR_GZ] = "tar.gz", [FORM_TAR_ZST] = "tar.zst" };
    for (size_t i = 0; i < ARRAY_LEN(words); i++)
        if (strcmp(word, words[i]) == 0) {
            *out = (enum form)i;
            return 0;
        }
    return err_set(e, E_INVAL, "%.20s is no form", word);
}

static int read_job(struct job *j, int argc, char **argv, struct err *e)
{
    if (argc != 9)
        return err_set(e, E_INVAL, "usage: limpet unpack FILE SHA256 FORM DIR MAX-BYTES MAX-ENTRIES RESERVE");
    *j = (struct job){ .file = argv[2], .sha256 = argv[3], .dir = argv[5], .in = -1, .parent = -1 };
    int rc = read_form(argv[4], &j->form, e);
    if (rc == 0)
        rc = num_i64(argv[6], 0, INT64_MAX, &j->max_bytes, e);
    if (rc == 0)
        rc = num_i64(argv[7], 0, INT64_MAX, &j->max_entries, e);
    if (rc == 0)
        rc = num_i64(argv[8], 0, INT64_MAX, &j->reserve, e);
    if (rc == 0)
        rc = path_check(j->dir, e);
    if (rc < 0)
        return rc;
    int n = snprintf(j->fresh, sizeof(j->fresh), "%s.new", j->dir);
    if (n < 0 || (size_t)n >= sizeof(j->fresh))
        return err_set(e, E_INVAL, "the directory's name is too long");
    j->name = strrchr(j->dir, '/') + 1;
    j->fresh_name = strrchr(j->fresh, '/') + 1;
    return 0;
}

// --- A cell to work in

static void limit(int resource, int64_t most)
{
    struct rlimit l = { (rlim_t)most, (rlim_t)most };
    (void)setrlimit(resource, &l); // a bound more, not the only one
}

static int drop_capabilities(struct err *e)
{
    struct __user_cap_header_struct h = { .version = _LINUX_CAPABILITY_VERSION_3 };
    struct __user_cap_data_struct none[2] = { { 0 } };
    return syscall(SYS_capset, &h, none) == 0 ? 0 : err_sys(e, errno, "giving up capabilities");
}

// Only root can, and only root has anything to give up.
static int lock_in(int top, struct err *e)
{
    limit(RLIMIT_CORE, 0);
    limit(RLIMIT_CPU, CPU_SECONDS);
    limit(RLIMIT_NOFILE, OPEN_FILES);
    limit(RLIMIT_AS, MEMORY_MAX);
    (void)prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0);
    if (geteuid() != 0)
        return 0;
    if (fchdir(top) < 0 || chroot(".") < 0)
        return err_sys(e, errno, "chroot");
    return drop_capabilities(e);
}

// --- The file

// fn for each piece of the packed file, from its beginning.
static int each_chunk(const struct job *j, int (*fn)(void *ctx, const void *p, size_t n, struct err *e), void *ctx, struct err *e)
{
    static char chunk[CHUNK];
    int64_t at = 0;
    for (;;) {
        ssize_t n = pread(j->in, chunk, sizeof(chunk), at);
        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0)
            return err_sys(e, errno, "%s", j->file);
        if (n == 0)
            return 0;
        int rc = fn(ctx, chunk, (size_t)n, e);
        if (rc < 0)
            return rc;
        at += n;
    }
}

static int hash_chunk(void *ctx, const void *p, size_t n, struct err *e UNUSED)
{
    sha256_add(ctx, p, n);
    return 0;
}

static int compare(const struct job *j, bool *same, struct err *e)
{
    char hex[SHA256_HEX];
    struct sha256 h;
    sha256_init(&h);
    int rc = each_chunk(j, hash_chunk, &h, e);
    if (rc < 0)
        return rc;
    sha256_end_hex(&h, hex);
    *same = strcmp(hex, j->sha256) == 0;
    return *same ? 0 : err_set(e, E_CORRUPT, "its sha256 is %s", hex);
}

static int tar_chunk(void *ctx, const void *p, size_t n, struct err *e)
{
    return tar_feed(ctx, p, n, e);
}

static int packed_chunk(void *ctx, const void *p, size_t n, struct err *e)
{
    return packed_feed(ctx, p, n, e);
}

static int file_chunk(void *ctx, const void *p, size_t n, struct err *e)
{
    return tree_data(ctx, p, n, e);
}

static int unpack_file(struct job *j, struct err *e)
{
    const struct tar_entry en = { .type = TAR_FILE, .name = "artifact", .mode = 0755 };
    int rc = tree_entry(&j->tree, &en, e);
    if (rc == 0)
        rc = each_chunk(j, file_chunk, &j->tree, e);
    return rc == 0 ? tree_end(&j->tree, e) : rc;
}

static int unpack_tar(struct job *j, struct err *e)
{
    struct packed *packed = NULL;
    j->sink = tree_sink(&j->tree);
    tar_init(&j->tar, &j->sink);
    int rc = packed_new(&packed, j->form == FORM_TAR_GZ ? PACKED_GZIP : PACKED_ZSTD, tar_chunk, &j->tar, e);
    if (rc == 0)
        rc = each_chunk(j, packed_chunk, packed, e);
    if (rc == 0)
        rc = packed_finish(packed, e);
    if (rc == 0)
        rc = tar_finish(&j->tar, e);
    packed_free(packed);
    tar_fini(&j->tar);
    return rc;
}

// --- In order

static int remove_tree(const char *path, struct err *e)
{
    struct disk *d = NULL;
    int rc = disk_real_new(&d, NULL, "", e);
    if (rc < 0)
        return rc;
    rc = d->ops->rmtree(d, path, e);
    disk_free(d);
    return rc;
}

static int open_places(struct job *j, struct err *e)
{
    char parent[PATH_BYTES];
    snprintf(parent, sizeof(parent), "%.*s/", (int)(j->name - j->dir), j->dir);
    j->in = open(j->file, O_RDONLY | O_CLOEXEC | O_NOFOLLOW);
    if (j->in < 0)
        return err_sys(e, errno, "%s", j->file);
    j->parent = open(parent, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    return j->parent >= 0 ? 0 : err_sys(e, errno, "%s", parent);
}

static int open_fresh(const struct job *j, int *top, struct err *e)
{
    if (mkdirat(j->parent, j->fresh_name, 0755) < 0)
        return err_sys(e, errno, "%s", j->fresh);
    *top = openat(j->parent, j->fresh_name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    return *top >= 0 ? 0 : err_sys(e, errno, "%s", j->fresh);
}

// All of it is on the disk before it has its name.
static int activate(const struct job *j, int top, struct err *e)
{
    if (syncfs(top) < 0)
        return err_sys(e, errno, "%s", j->fresh);
    if (renameat(j->parent, j->fresh_name, j->parent, j->name) < 0)
        return err_sys(e, errno, "%s", j->dir);
    return fsync(j->parent) == 0 ? 0 : err_sys(e, errno, "%s", j->dir);
}

static int fill(struct job *j, int top, struct err *e)
{
    tree_init(&j->tree, top);
    j->tree.max_bytes = j->max_bytes;
    j->tree.max_entries = j->max_entries;
    j->tree.reserve = j->reserve;
    int rc = lock_in(top, e);
    if (rc == 0)
        rc = j->form == FORM_FILE ? unpack_file(j, e) : unpack_tar(j, e);
    tree_fini(&j->tree);
    return rc == 0 ? activate(j, top, e) : rc;
}

static int code_of(int rc)
{
    switch (rc) {
    case 0:
        return UNPACK_OK;
    case E_CORRUPT:
    case E_INVAL:
    case E_UNSUP:
    case E_TOOBIG:
        return UNPACK_BAD;
    case E_NOSPC:
        return UNPACK_NO_SPACE;
    default:
        return UNPACK_FAILED;
    }
}

static int work(struct job *j, struct err *e)
{
    int top = -1;
    bool same = true;
    int rc = open_places(j, e);
    if (rc == 0)
        rc = compare(j, &same, e);
    if (!same)
        return UNPACK_DIGEST;
    if (rc == 0)
        rc = remove_tree(j->fresh, e);
    if (rc == 0)
        rc = open_fresh(j, &top, e);
    if (rc < 0)
        return rc == E_NOSPC ? UNPACK_NO_SPACE : UNPACK_FAILED; // the archive was not looked at yet
    return code_of(fill(j, top, e));
}

static int remove_main(const char *dir)
{
    struct err e = ERR_INIT;
    if (remove_tree(dir, &e) == 0)
        return UNPACK_OK;
    fprintf(stderr, "%s\n", e.msg);
    return UNPACK_FAILED;
}

int unpack_main(int argc, char **argv)
{
    static struct job j;
    struct err e = ERR_INIT;
    if (argc == 4 && strcmp(argv[2], "--remove") == 0)
        return remove_main(argv[3]);
    if (read_job(&j, argc, argv, &e) < 0) {
        fprintf(stderr, "limpet unpack: %s\n", e.msg);
        return UNPACK_USAGE;
    }
    umask(022);
    int code = work(&j, &e);
    if (code != UNPACK_OK)
        fprintf(stderr, "%s\n", e.msg);
    return code;
}
