// SPDX-License-Identifier: Apache-2.0
//
// The tar reader: what it tells of entries, in whatever pieces the bytes come, and what it refuses.
#include "unpack/tar.c"

#include "base/buf.h"
#include "tar_maker.h"

// What a sink was told, as text: "f a/b 755 5 [hello]; d c; l x>y; h x>y;".
struct told {
    struct buf text;
};

static int on_entry(void *ctx, const struct tar_entry *t, struct err *e)
{
    struct told *x = ctx;
    int rc = buf_addf(&x->text, e, "%c %s", "fdlh"[t->type], t -> name);
    if (rc == 0 && t->target != NULL && t->type >= TAR_SYMLINK)
        rc = buf_addf(&x->text, e, ">%s", t->target);
    if (rc == 0 && t->type == TAR_FILE)
        return buf_addf(&x->text, e, " %o %lld [", (unsigned)t->mode, (long long)t->size);
    return rc == 0 ? buf_adds(&x->text, "; ", e) : rc;
}

static int on_data(void *ctx, const void *p, size_t n, struct err *e)
{
    return buf_add(&((struct told *)ctx)->text, p, n, e);
}

static int on_end(void *ctx, struct err *e)
{
    return buf_adds(&((struct told *)ctx)->text, "]; ", e);
}

static int read_in_pieces(const struct buf *archive, size_t piece, struct told *x, struct err *e)
{
    struct tar_sink sink = { on_entry, on_data, on_end, x };
    static struct tar_reader r;
    int rc = 0;
    x->text = (struct buf)BUF_INIT(1 << 20);
    tar_init(&r, &sink);
    for (size_t at = 0; rc == 0 && at < archive->len; at += piece)
        rc = tar_feed(&r, archive->data + at, MIN(piece, archive->len - at), e);
    if (rc == 0)
        rc = tar_finish(&r, e);
    tar_fini(&r);
    return rc;
}

static void tells(struct buf *archive, const char *want, const char *what)
{
    static const size_t pieces[] = { 1, 7, 512, 1000, 1 << 20 };
    for (size_t i = 0; i < ARRAY_LEN(pieces); i++) {
        struct told x;
        struct err e = ERR_INIT;
        int rc = read_in_pieces(archive, pieces[i], &x, &e);
        ok(rc == 0 && strcmp(buf_str(&x.text), want) == 0, "%s, in pieces of %zu", what, pieces[i]);
        if (rc < 0 || strcmp(buf_str(&x.text), want) != 0)
            diag("%s | %s", e.msg, buf_str(&x.text));
        buf_fini(&x.text);
    }
    buf_fini(archive);
}

static void refuses(struct buf *archive, int cls, const char *what)
{
    struct told x;
    struct err e = ERR_INIT;
    int rc = read_in_pieces(archive, 100, &x, &e);
    ok(rc == cls, "refused: %s (%s)", what, e.msg);
    buf_fini(&x.text);
    buf_fini(archive);
}

static void test_entries(void)
{
    struct buf b = BUF_INIT(ARCHIVE_MAX);
    put_text(&b, '5', "./", 0755, "");
    put_text(&b, '5', "bin/", 0755, "");
    put_text(&b, '0', "bin//./app", 04755, "hello");
    put_text(&b, '0', "empty", 0644, "");
    put_link(&b, '2', "bin/link", "../lib/x");
    put_link(&b, '1', "other", "./bin/app");
    put_end(&b);
    tells(&b, "d ; d bin; f bin/app 4755 5 [hello]; f empty 644 0 []; l bin/link>../lib/x; h other>bin/app; ", "files, links");
}

static void test_long_names(void)
{
    char name[301], want[400], pax[400];
    struct buf b = BUF_INIT(ARCHIVE_MAX);
    memset(name, 'n', 300);
    name[150] = '/';
    name[300] = '\0';
    snprintf(want, sizeof(want), "f %s 644 1 [x]; f short 644 0 []; ", name);
    put_text(&b, 'L', "././@LongLink", 0, name);
    put_text(&b, '0', "nnn", 0644, "x");
    put_text(&b, '0', "short", 0644, "");
    put_end(&b);
    tells(&b, want, "GNU's long name, of one entry only");
    snprintf(pax, sizeof(pax), "30 mtime=1700000000.123456789\n310 path=%s\n", name);
    put_text(&b, 'g', "pax_global", 0644, "20 comment=whatever\n");
    put_text(&b, 'x', "PaxHeaders/nnn", 0644, pax);
    put_text(&b, '0', "nnn", 0644, "x");
    put_text(&b, '0', "short", 0644, "");
    put_end(&b);
    tells(&b, want, "pax path");
    put_text(&b, 'x', "PaxHeaders/l", 0644, "23 linkpath=some/where\n");
    put_link(&b, '2', "l", "cut");
    put_end(&b);
    tells(&b, "l l>some/where; ", "pax linkpath");
    put_text(&b, 'x', "PaxHeaders/s", 0644, "9 size=3\n");
    put_header(&b, '0', "s", "", 0644, 0);
    put(&b, "abc", 3);
    put_padding(&b);
    put_end(&b);
    tells(&b, "f s 644 3 [abc]; ", "pax size counts, not the header's");
}

static void one(struct buf *b, char type, const char *name)
{
    put_text(b, type, name, 0644, "");
    put_end(b);
}

static void test_refused_names(void)
{
    char deep[301];
    struct buf b = BUF_INIT(ARCHIVE_MAX);
    one(&b, '0', "/etc/passwd");
    refuses(&b, E_INVAL, "an absolute name");
    one(&b, '0', "../x");
    refuses(&b, E_INVAL, "a name that goes up");
    one(&b, '0', "a/../../x");
    refuses(&b, E_INVAL, "one that goes up in the middle");
    one(&b, '0', ".");
    refuses(&b, E_INVAL, "a file in the place of the top");
    put_link(&b, '1', "x", "/etc/shadow");
    put_end(&b);
    refuses(&b, E_INVAL, "a hard link to an absolute name");
    put_link(&b, '1', "x", "a/../../y");
    put_end(&b);
    refuses(&b, E_INVAL, "a hard link that goes up");
    memset(deep, 'n', 300);
    deep[300] = '\0';
    put_text(&b, 'L', "././@LongLink", 0, deep);
    one(&b, '0', "x");
    refuses(&b, E_TOOBIG, "a component of more than 255 bytes");
}

static void test_refused_things(void)
{
    static const char types[] = "346SMDVZ";
    struct buf b = BUF_INIT(ARCHIVE_MAX);
    for (const char *t = types; *t != '\0'; t++) {
        one(&b, *t, "thing");
        refuses(&b, E_UNSUP, "a thing that is neither file, directory nor link");
    }
    put_text(&b, 'x', "p", 0644, "22 GNU.sparse.major=1\n");
    one(&b, '0', "x");
    refuses(&b, E_UNSUP, "a sparse file in pax's form");
    put_text(&b, 'x', "p", 0644, "9999 path=x\n");
    one(&b, '0', "x");
    refuses(&b, E_CORRUPT, "a pax record longer than its header");
    put_text(&b, 'x', "p", 0644, "22 path=x\n");
    one(&b, '0', "x");
    refuses(&b, E_CORRUPT, "a pax record whose length is wrong");
    put_text(&b, 'x', "p", 0644, "26 size=99999999999999999\n");
    one(&b, '0', "x");
    refuses(&b, E_TOOBIG, "a size that would overflow");
    put_header(&b, 'x', "p", "", 0644, TAR_EXTENDED_MAX + 1);
    refuses(&b, E_TOOBIG, "an extended header without end");
    put_text(&b, 'L', "p", 0644, "name-of-nothing");
    put_end(&b);
    refuses(&b, E_CORRUPT, "a long name of nothing");
}

static void test_damage(void)
{
    struct buf b = BUF_INIT(ARCHIVE_MAX);
    put_zeros(&b, 100);
    refuses(&b, E_CORRUPT, "not even a block");
    put_text(&b, '0', "x", 0644, "hello");
    refuses(&b, E_CORRUPT, "no end");
    put_header(&b, '0', "x", "", 0644, 5000);
    put_zeros(&b, 3 * BLOCK);
    refuses(&b, E_CORRUPT, "cut off in a file");
    put_text(&b, '0', "x", 0644, "hello");
    put_end(&b);
    b.data[0] = 'y';
    refuses(&b, E_CORRUPT, "a header that was changed");
    for (int i = 0; i < BLOCK; i++)
        put(&b, "z", 1);
    refuses(&b, E_CORRUPT, "no tar at all");
    put_header(&b, '0', "x", "", 0644, 0);
    memset(b.data + 124, 0xff, 12);
    refuses(&b, E_CORRUPT, "a negative size");
}

int main(void)
{
    test_entries();
    test_long_names();
    test_refused_names();
    test_refused_things();
    test_damage();
    return done_testing();
}
