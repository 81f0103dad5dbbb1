// SPDX-License-Identifier: Apache-2.0
//
// limpet unpack: what comes out of an archive, and that nothing comes out of a bad one. Each run is a process of its own, as in the field.
#include "unpack/tree.c"
#include "unpack/unpack.c"

#include <ftw.h>
#include <sys/wait.h>
#include <zlib.h>

#include "tar_maker.h"

static char top[64], packed[80], dir[80];
static const char *max_bytes = "1000000", *max_entries = "1000", *reserve = "0";
static char said[512]; // by the last run

// --- The rig

static int remove_one(const char *path, const struct stat *st UNUSED, int flag UNUSED, struct FTW *f UNUSED)
{
    return remove(path);
}

static void clear(const char *path)
{
    (void)nftw(path, remove_one, 2 * TREE_DEPTH_MAX, FTW_DEPTH | FTW_PHYS);
}

static void save(const struct buf *b)
{
    FILE *f = fopen(packed, "wb");
    if (f == NULL || fwrite(b->data, 1, b->len, f) != b->len || fclose(f) != 0)
        abort();
}

// Runs it on what was saved. form: tar.gz, tar.zst, file.
static int run_on(const struct buf *b, const char *form, const char *sha256)
{
    char hex[SHA256_HEX];
    int out[2], status;
    sha256_hex(b->data, b->len, hex);
    save(b);
    clear(dir);
    if (pipe(out) < 0)
        abort();
    fflush(stdout);
    pid_t pid = fork();
    if (pid == 0) {
        char *argv[] = { "limpet",
                         "unpack",
                         packed,
                         (char *)(uintptr_t)(sha256 != NULL ? sha256 : hex),
                         (char *)(uintptr_t)form,
                         dir,
                         (char *)(uintptr_t)max_bytes,
                         (char *)(uintptr_t)max_entries,
                         (char *)(uintptr_t)reserve,
                         NULL };
        dup2(out[1], STDERR_FILENO);
        _exit(unpack_main(9, argv));
    }
    close(out[1]);
    ssize_t n = read(out[0], said, sizeof(said) - 1);
    said[n > 0 ? n : 0] = '\0';
    said[strcspn(said, "\n")] = '\0';
    close(out[0]);
    waitpid(pid, &status, 0);
    return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

static void u32(struct buf *b, uint32_t v)
{
    unsigned char le[4] = { (unsigned char)v, (unsigned char)(v >> 8), (unsigned char)(v >> 16), (unsigned char)(v >> 24) };
    put(b, le, 4);
}

// One member, as blocks that are not compressed.
static void gzip(struct buf *out, const struct buf *in)
{
    static const unsigned char head[] = { 0x1f, 0x8b, 8, 0, 0, 0, 0, 0, 0, 3 };
    put(out, head, sizeof(head));
    for (size_t at = 0; at < in->len; at += 60000) {
        uint16_t n = (uint16_t)MIN(in->len - at, (size_t)60000);
        unsigned char block[] = { at + n == in->len, (unsigned char)n, (unsigned char)(n >> 8), (unsigned char)~n,
                                  (unsigned char)(~n >> 8) };
        put(out, block, sizeof(block));
        put(out, in->data + at, n);
    }
    u32(out, (uint32_t)crc32(0, (const Bytef *)in->data, (uInt)in->len));
    u32(out, (uint32_t)in->len);
}

// The same as zstd: a frame of raw blocks that knows its size.
static void zstd(struct buf *out, const struct buf *in)
{
    u32(out, 0xfd2fb528);
    put(out, "\xa0", 1);
    u32(out, (uint32_t)in->len);
    for (size_t at = 0; at < in->len; at += 60000) {
        size_t n = MIN(in->len - at, (size_t)60000);
        uint32_t h = (uint32_t)(n << 3) | (at + n == in->len);
        unsigned char le[3] = { (unsigned char)h, (unsigned char)(h >> 8), (unsigned char)(h >> 16) };
        put(out, le, 3);
        put(out, in->data + at, n);
    }
}

// Ends the archive, packs it and runs; frees it.
static int run_tar(struct buf *tar)
{
    struct buf gz AUTO_BUF = BUF_INIT(ARCHIVE_MAX);
    put_end(tar);
    gzip(&gz, tar);
    buf_fini(tar);
    return run_on(&gz, "tar.gz", NULL);
}

static const char *path_of(const char *name)
{
    static char path[512];
    snprintf(path, sizeof(path), "%s/%s", dir, name);
    return path;
}

static bool holds(const char *name, const char *want, unsigned mode)
{
    char text[256] = "";
    struct stat st;
    FILE *f = fopen(path_of(name), "rb");
    if (f == NULL)
        return false;
    size_t n = fread(text, 1, sizeof(text) - 1, f);
    bool same = fstat(fileno(f), &st) == 0 && (st.st_mode & 07777) == mode && n == strlen(want) && memcmp(text, want, n) == 0;
    fclose(f);
    return same;
}

static bool exists(const char *path)
{
    struct stat st;
    return lstat(path, &st) == 0;
}

static void refused(struct buf *tar, int code, const char *what)
{
    int got = run_tar(tar);
    ok(got == code && !exists(dir), "refused with %d, nothing is active: %s (%.120s)", got, what, said);
}

// --- The tests

static void test_tree(void)
{
    struct buf b = BUF_INIT(ARCHIVE_MAX);
    put_text(&b, '5', "app/", 0700, "");
    put_text(&b, '0', "app/bin/run", 06750, "#!/bin/sh\n");
    put_text(&b, '0', "app/etc/conf", 0600, "a = 1\n");
    put_text(&b, '0', "app/etc/conf", 0600, "a = 2\n");
    put_link(&b, '2', "app/lib/libx.so", "libx.so.1");
    put_link(&b, '2', "app/current", "../app/./bin/run");
    put_link(&b, '1', "same", "app/bin/run");
    is_int(run_tar(&b), UNPACK_OK, "an archive with directories, files and links is unpacked");
    ok(holds("app/bin/run", "#!/bin/sh\n", 0755), "an executable is 0755, without set-id bits");
    ok(holds("app/etc/conf", "a = 2\n", 0644), "of two entries of a name the later counts; others may read it");
    ok(holds("app/current", "#!/bin/sh\n", 0755), "a symbolic link inside leads to it");
    ok(holds("same", "#!/bin/sh\n", 0755), "a hard link, too");
    struct stat st;
    ok(stat(path_of("app"), &st) == 0 && (st.st_mode & 07777) == 0755, "directories are 0755");
}

static void test_forms(void)
{
    struct buf tar = BUF_INIT(ARCHIVE_MAX), z = BUF_INIT(ARCHIVE_MAX), plain = BUF_INIT(ARCHIVE_MAX);
    put_text(&tar, '0', "x", 0644, "hello");
    put_end(&tar);
    zstd(&z, &tar);
    is_int(run_on(&z, "tar.zst", NULL), UNPACK_OK, "zstd");
    ok(holds("x", "hello", 0644), "its file is there");
    is_int(run_on(&z, "tar.gz", NULL), UNPACK_BAD, "zstd is no gzip");
    z.len -= 10;
    is_int(run_on(&z, "tar.zst", NULL), UNPACK_BAD, "zstd that is cut off");
    buf_reset(&z);
    gzip(&z, &tar);
    z.len -= 4;
    is_int(run_on(&z, "tar.gz", NULL), UNPACK_BAD, "gzip that is cut off behind the archive's end");
    put(&plain, "echo hello\n", 11);
    is_int(run_on(&plain, "file", NULL), UNPACK_OK, "a single file");
    ok(holds("artifact", "echo hello\n", 0755), "is there as `artifact`, executable");
    is_int(run_on(&plain, "file", "00ab"), UNPACK_DIGEST, "another sha256 is told apart");
    ok(!exists(dir) && strstr(said, "its sha256 is") != NULL, "and nothing is active");
    buf_fini(&tar);
    buf_fini(&z);
    buf_fini(&plain);
}

static void test_two_members(void)
{
    struct buf tar = BUF_INIT(ARCHIVE_MAX), half = BUF_INIT(ARCHIVE_MAX), gz = BUF_INIT(ARCHIVE_MAX);
    put_text(&tar, '0', "x", 0644, "hello");
    put(&half, tar.data, 700);
    gzip(&gz, &half);
    put_end(&tar);
    buf_drop(&tar, 700);
    gzip(&gz, &tar);
    is_int(run_on(&gz, "tar.gz", NULL), UNPACK_OK, "gzip in two members, as parallel packers make it");
    ok(holds("x", "hello", 0644), "is one text");
    buf_fini(&tar);
    buf_fini(&half);
    buf_fini(&gz);
}

static void test_ways_out(void)
{
    static const char *const targets[] = { "/etc/passwd", "../../x", "..", "", "a/../../x", "a/../b" };
    struct buf b = BUF_INIT(ARCHIVE_MAX);
    char outside[80];
    snprintf(outside, sizeof(outside), "%s/x", top);
    for (size_t i = 0; i < ARRAY_LEN(targets); i++) {
        put_link(&b, '2', "l", targets[i]);
        refused(&b, UNPACK_BAD, "a link that leads out, or goes up behind a name");
    }
    put_text(&b, '0', "../x", 0644, "out");
    refused(&b, UNPACK_BAD, "a name that leads out");
    ok(!exists(outside), "and nothing is written there");
    put_link(&b, '2', "d", "e");
    put_text(&b, '0', "d/x", 0644, "through");
    refused(&b, UNPACK_BAD, "a file below a link");
    put_text(&b, '5', "e", 0755, "");
    put_link(&b, '2', "d", "e");
    put_link(&b, '1', "h", "d/x");
    refused(&b, UNPACK_BAD, "a hard link through a symbolic one");
    put_link(&b, '2', "d", "e");
    put_link(&b, '1', "h", "d");
    refused(&b, UNPACK_BAD, "a hard link to a symbolic one");
    put_text(&b, '5', "d/e", 0755, "");
    put_text(&b, '0', "d", 0644, "x");
    refused(&b, UNPACK_BAD, "a file in the place of a directory");
    put_text(&b, '0', "d", 0644, "x");
    put_text(&b, '0', "d/e", 0644, "x");
    refused(&b, UNPACK_BAD, "a file below a file");
    put_header(&b, '3', "null", "", 0666, 0);
    refused(&b, UNPACK_BAD, "a device");
}

static void test_bounds(void)
{
    struct buf b = BUF_INIT(ARCHIVE_MAX);
    char name[3 * TREE_DEPTH_MAX] = "x";
    max_bytes = "10";
    put_text(&b, '0', "x", 0644, "12345");
    put_text(&b, '0', "y", 0644, "123456");
    refused(&b, UNPACK_BAD, "more bytes than allowed");
    put_header(&b, '0', "x", "", 0644, (size_t)1 << 32);
    refused(&b, UNPACK_BAD, "a file that says it is larger");
    max_bytes = "1000000";
    max_entries = "3";
    put_text(&b, '0', "a/b/c", 0644, "x");
    is_int(run_tar(&b), UNPACK_OK, "as many entries as allowed");
    put_text(&b, '0', "a/b/c/d", 0644, "x");
    refused(&b, UNPACK_BAD, "one more");
    max_entries = "1000";
    for (int i = 1; i < TREE_DEPTH_MAX; i++)
        strcat(name, "/x");
    put_text(&b, '0', name, 0644, "x");
    is_int(run_tar(&b), UNPACK_OK, "as deep as allowed");
    strcat(name, "/x");
    put_text(&b, '0', name, 0644, "x");
    refused(&b, UNPACK_BAD, "one deeper");
}

static void test_space_and_leftovers(void)
{
    struct buf b = BUF_INIT(ARCHIVE_MAX);
    char fresh[100];
    snprintf(fresh, sizeof(fresh), "%s.new", dir);
    max_bytes = "8000000";
    reserve = "9000000000000000";
    put_header(&b, '0', "large", "", 0644, 2 << 20);
    put_zeros(&b, 2 << 20);
    refused(&b, UNPACK_NO_SPACE, "what would use up the reserve");
    ok(exists(fresh), "its half stays for now");
    reserve = "0";
    put_text(&b, '0', "x", 0644, "hello");
    is_int(run_tar(&b), UNPACK_OK, "the next one goes on without it");
    ok(holds("x", "hello", 0644) && !exists(path_of("large")) && !exists(fresh), "and nothing of the first is in it");
}

static void test_usage(void)
{
    struct buf b = BUF_INIT(ARCHIVE_MAX);
    put(&b, "x", 1);
    is_int(run_on(&b, "zip", NULL), UNPACK_USAGE, "a form that is none");
    max_bytes = "many";
    is_int(run_on(&b, "file", NULL), UNPACK_USAGE, "a bound that is none");
    buf_fini(&b);
}

static void test_remove(void)
{
    char *argv[] = { (char *)"limpet", (char *)"unpack", (char *)"--remove", dir, NULL };
    struct buf b = BUF_INIT(ARCHIVE_MAX);
    put_text(&b, '0', "a/b/c", 0644, "x");
    is_int(run_tar(&b), UNPACK_OK, "a directory");
    is_int(unpack_main(4, argv), UNPACK_OK, "is removed");
    ok(!exists(dir), "with all that is in it");
    is_int(unpack_main(4, argv), UNPACK_OK, "one that is not there is no failure");
    argv[3] = (char *)"relative";
    is_int(unpack_main(4, argv), UNPACK_FAILED, "a relative name is one");
}

int main(void)
{
    snprintf(top, sizeof(top), "/tmp/unpack_test.%d", (int)getpid());
    snprintf(packed, sizeof(packed), "%s/packed", top);
    snprintf(dir, sizeof(dir), "%s/dir", top);
    if (mkdir(top, 0755) < 0)
        abort();
    test_tree();
    test_forms();
    test_two_members();
    test_ways_out();
    test_bounds();
    test_space_and_leftovers();
    test_remove();
    test_usage();
    clear(top);
    return done_testing();
}
