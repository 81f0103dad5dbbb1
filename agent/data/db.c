// SPDX-License-Identifier: Apache-2.0
#include "data/db.h"

#include <sqlite3.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/log.h"
#include "data/db_priv.h"

enum { BYTES_DEFAULT = 64 * 1024 * 1024, PATH_BOUND = 240, HEAL_AGAIN_MS = 30 * 1000, DOUBTS = 3 };

// --- Opening

static int make_dir(struct db *db, struct err *e)
{
    char dir[PATH_BOUND];
    const char *slash = strrchr(db->path, '/');
    if (slash == db->path)
        return 0;
    memcpy(dir, db->path, (size_t)(slash - db->path));
    dir[slash - db->path] = '\0';
    return db->disk->ops->mkdirs(db->disk, dir, 0700, 0, e);
}

static void log_name(const struct db *db, char out[PATH_BOUND + 8])
{
    snprintf(out, PATH_BOUND + 8, "%s-wal", db->path);
}

// What stands where the store or its log should. A directory or a link is no store and a FIFO would be waited for; it goes out of the way.
// What others may read or write is ours again: the specs in it say what root runs.
static int claim(struct db *db, const char *path, struct err *e)
{
    struct fs_stat st;
    struct err why = ERR_INIT;
    int r = db->disk->ops->stat(db->disk, path, 0, &st, &why);
    if (r == E_NOTFOUND)
        return 0;
    if (r != 0)
        return err_set(e, r, "%s", why.msg);
    if (st.type != FS_FILE)
        return db_set_aside(db, path, e);
    if ((st.mode & 077) == 0 && st.uid == geteuid())
        return 0;
    log_warn("db", "store-claimed path=%s mode=%04o uid=%u", path, (unsigned)st.mode, (unsigned)st.uid);
    return db->disk->ops->chattr(db->disk, path, 0600, geteuid(), getegid(), 0, e);
}

static int64_t size_below_root(struct db *db, const char *path, struct err *e)
{
    struct fs_stat st;
    int r = db->disk->ops->stat(db->disk, path, 0, &st, e);
    return r == 0 ? st.size : r;
}

// A log that is not empty: whoever had the store open did not close it.
static bool stopped_uncleanly(struct db *db)
{
    char log[PATH_BOUND + 8];
    log_name(db, log);
    return size_below_root(db, log, NULL) > 0;
}

// What SQLite would not notice. It looks at the files alone.
static int check_headers(struct db *db, struct err *e)
{
    struct db_pages *p = NULL;
    int r = db_pages_open(&p, db, e);
    if (r == 0 && !stopped_uncleanly(db) && !db_pages_header_ok(p)) // else the newest one is in the log
        r = err_set(e, E_CORRUPT, "store: the file's header is not one of ours");
    if (r == 0 && !db_pages_log_ok(p))
        r = err_set(e, E_CORRUPT, "store: the log's header is damaged");
    db_pages_free(p);
    return r;
}

static int note_wal(void *ctx, struct sqlite3 *sq, const char *schema, int frames)
{
    struct db *db = ctx;
    (void)sq;
    (void)schema;
    db->wal_frames = frames;
    return SQLITE_OK;
}

// What a predecessor could not fsync is read from the page cache like everything else, and yet may not lie on the disk; what is added behind
// it is then lost with it at a power cut. So the log is written back before anything is added. A full disk cannot do that: it is tried again.
static bool write_log_back(struct sqlite3 *sq)
{
    return sqlite3_wal_checkpoint_v2(sq, NULL, SQLITE_CHECKPOINT_TRUNCATE, NULL, NULL) == SQLITE_OK;
}

// Before a transaction, as long as it did not work; once in a while, for a disk that is full or broken makes it long.
void db_write_log_back(struct db *db)
{
    int64_t now = clock_mono(db->clock);
    if (!db->log_old || now < db->next_back_ms)
        return;
    db->next_back_ms = now + DB_TIGHT_MS;
    db->log_old = !write_log_back(db->sq);
}

// Transactions that lie behind a damaged frame are gone. -1: the disk does not tell now.
static int frames_in_log(struct sqlite3 *sq)
{
    int frames = 0, moved = 0;
    return sqlite3_wal_checkpoint_v2(sq, NULL, SQLITE_CHECKPOINT_PASSIVE, &frames, &moved) == SQLITE_OK ? frames : -1;
}

// Opens the file that is there. E_CORRUPT: it needs salvage, if it is still so on another try.
static int attach(struct db *db, bool check, struct err *e)
{
    struct sqlite3 *sq = NULL;
    bool unclean = stopped_uncleanly(db);
    int r = check_headers(db, e);
    if (r == 0)
        r = db_connect(db, db->path, &sq, e);
    if (r == 0 && check)
        r = db_quick_check(sq, e);
    if (r == 0)
        r = db_migrate(sq, e);
    if (r == E_IO && db_read_failed(sq))
        r = err_set(e, E_CORRUPT, "store: a page cannot be read");
    if (r != 0) {
        db_disconnect(sq, true);
        return r;
    }
    db->found_frames = frames_in_log(sq);
    db->log_old = unclean && !write_log_back(sq);
    db->next_back_ms = 0;
    sqlite3_wal_hook(sq, note_wal, db);
    db->sq = sq;
    db->damaged = false;
    db->wal_frames = 0;
    return 0;
}

// One read that fails is no damage yet: whatever is found must be found again by fresh connections. All of the file is looked at, whoever
// closed it: a start that failed at a damaged page would fail at each further try, and there is no turn yet in which that could be mended.
static int attach_surely(struct db *db, struct err *e)
{
    int r = E_CORRUPT;
    for (int i = 0; i < DB_READ_TRIES && r == E_CORRUPT; i++)
        r = attach(db, true, e);
    return r;
}

static int salvage_and_attach(struct db *db, struct err *why, struct err *e)
{
    int r = db_salvage(db, why->msg, e);
    return r == 0 ? attach_surely(db, e) : r;
}

static int open_file(struct db *db, struct err *e)
{
    char log[PATH_BOUND + 8];
    struct err why = ERR_INIT;
    log_name(db, log);
    int r = make_dir(db, e);
    if (r == 0)
        r = db_finish_salvage(db, e);
    if (r == 0)
        r = claim(db, db->path, e);
    if (r == 0)
        r = claim(db, log, e);
    if (r == 0 && size_below_root(db, db->path, &why) == E_NOTFOUND)
        r = db_create(db, e);
    if (r != 0)
        return r;
    r = attach_surely(db, &why);
    if (r == E_CORRUPT)
        return salvage_and_attach(db, &why, e);
    if (r != 0 && e != NULL)
        *e = why;
    return r;
}

static void free_db(struct db *db)
{
    db_metas_free(db);
    free(db->path);
    free(db);
}

int db_open(struct db **out, struct disk *d, struct clock *c, const struct db_conf *conf, struct err *e)
{
    int r = path_check(conf->path, e);
    if (r != 0)
        return r;
    if (strlen(conf->path) >= PATH_BOUND)
        return err_set(e, E_INVAL, "store path %s is longer than %d bytes", conf->path, PATH_BOUND - 1);
    struct db *db = calloc(1, sizeof(*db));
    if (db == NULL || (db->path = strdup(conf->path)) == NULL) {
        free(db);
        return err_set(e, E_NOMEM, "no memory for the store");
    }
    db->disk = d;
    db->clock = c;
    db->max_pages = (conf->max_bytes > 0 ? conf->max_bytes : BYTES_DEFAULT) / DB_PAGE;
    list_init(&db->lazies);
    list_init(&db->hooks);
    list_init(&db->metas);
    r = open_file(db, e);
    if (r != 0) {
        free_db(db);
        return r;
    }
    *out = db;
    return 0;
}

// --- Closing

static void forget_nodes(struct list *head)
{
    list_each_safe(it, next, head)
        list_del(it);
}

static void detach(struct db *db, bool keep_log)
{
    db_stmts_close(db);
    db_disconnect(db->sq, keep_log);
    db->sq = NULL;
}

static void close_db(struct db *db, bool keep_log)
{
    forget_nodes(&db->hooks);
    forget_nodes(&db->lazies);
    detach(db, keep_log);
    free_db(db);
}

static bool lazies_wait(const struct db *db)
{
    return !list_empty(&db->lazies) || !list_empty(&db->metas);
}

void db_close(struct db *db)
{
    if (db == NULL)
        return;
    struct err e = ERR_INIT;
    int r = 0;
    if (lazies_wait(db) && db->sq != NULL && !db->damaged)
        r = db_begin(db, &e);
    db->next_lazy_ms = 0;
    if (r == 0)
        r = db_commit(db, &e);
    if (r != 0)
        log_error("db", "store-close error=\"%s\"", e.msg);
    close_db(db, false);
}

void db_abandon(struct db *db)
{
    if (db != NULL)
        close_db(db, true);
}

// --- Measures

static int64_t query_pragma(struct db *db, const char *pragma)
{
    struct db_stmt *s = db_stmt(db, pragma);
    if (db_step(s, NULL) != 1)
        return 0;
    int64_t v = db_int(s, 0);
    db_done(s);
    return v;
}

static int64_t size_of(struct db *db, int op)
{
    sqlite3_file *f = NULL;
    sqlite3_int64 n = 0;
    if (db->sq == NULL || sqlite3_file_control(db->sq, "main", op, &f) != SQLITE_OK || f == NULL || f->pMethods == NULL)
        return 0;
    return f->pMethods->xFileSize(f, &n) == SQLITE_OK ? n : 0;
}

// --- The transaction

static bool needs_healing(const struct db *db)
{
    return (db->damaged || db->doubtful || db->sq == NULL) && clock_mono(db->clock) >= db->next_heal_ms;
}

bool db_dirty(const struct db *db)
{
    return db->open || db->doomed || needs_healing(db);
}

void db_rollback(struct db *db)
{
    db_end_failed(db, E_CANCELED);
    db->doomed = false;
}

void db_lazy_add(struct db *db, struct db_lazy *l)
{
    if (!list_linked(&l->link))
        list_add_tail(&db->lazies, &l->link);
}

void db_lazy_del(struct db_lazy *l)
{
    list_del(&l->link);
}

void db_hook_add(struct db *db, struct db_hook *h)
{
    list_add_tail(&db->hooks, &h->link);
}

void db_hook_del(struct db_hook *h)
{
    list_del(&h->link);
}

// What waited for a transaction. One of them failing may have rolled everything back.
static int write_lazies(struct db *db, struct err *e)
{
    struct list now;
    list_init(&now);
    while (!list_empty(&db->lazies)) {
        struct list *n = db->lazies.next;
        list_del(n);
        list_add_tail(&now, n);
    }
    while (!list_empty(&now)) {
        struct db_lazy *l = container_of(now.next, struct db_lazy, link);
        list_del(&l->link);
        if (db->open)
            l->fn(l);
        else
            db_lazy_add(db, l);
    }
    if (!db->open)
        return err_set(e, db->failed, "store: a write that waited for this transaction has failed, nothing is kept");
    return db_metas_write(db, e);
}

// The log goes into the file once it is long; at once when the file has to grow, while there is room for that: on a full disk the log can
// then always be emptied, and its own blocks take every later transaction. That it fails is no failure of the commit, which stands.
static void empty_log(struct db *db)
{
    bool grows = query_pragma(db, "PRAGMA page_count") * DB_PAGE > size_of(db, SQLITE_FCNTL_FILE_POINTER);
    if (db->wal_frames < DB_WAL_FRAMES && !grows && clock_mono(db->clock) >= db->tight_to_ms)
        return;
    int rc = sqlite3_wal_checkpoint_v2(db->sq, NULL, SQLITE_CHECKPOINT_PASSIVE, NULL, NULL);
    db->damaged = db->damaged || (rc & 0xff) == SQLITE_CORRUPT;
    db->stats.nospc += (rc & 0xff) == SQLITE_FULL;
}

static void count_commit(struct db *db, int64_t began_ms)
{
    uint64_t ns = (uint64_t)(clock_mono(db->clock) - began_ms) * 1000000;
    db->stats.commits++;
    db->stats.commit_ns_total += ns;
    db->stats.commit_ns_max = MAX(db->stats.commit_ns_max, ns);
}

// The file is not what it should be: a new one from what can be read. What was not committed is gone.
static int heal(struct db *db, struct err *e)
{
    if (db_stmts_busy(db))
        return err_set(e, E_CORRUPT, "store is damaged and a statement is in use");
    if (db->open)
        db_end_failed(db, E_CORRUPT);
    db->doomed = false;
    detach(db, true);
    int r = salvage_and_attach(db, &(struct err){ .msg = "found while running" }, e);
    db->next_heal_ms = r != 0 ? clock_mono(db->clock) + HEAL_AGAIN_MS : 0;
    if (r != 0)
        return r;
    db->doubtful = false;
    db->doubts = 0;
    db_tell_hooks(db, E_CORRUPT);
    return err_set(e, E_CORRUPT, "store was damaged: %lld rows salvaged, %lld lost, the damaged file is %s",
                   (long long)db->salvage.rows_kept, (long long)db->salvage.rows_lost, db->salvage.aside);
}

// What was written after the failure may stand on what was written before it: it goes as well.
static int end_doomed(struct db *db, struct err *e)
{
    db_end_failed(db, db->failed);
    db->doomed = false;
    return err_set(e, db->failed, "store: a write failed and took everything since the last commit with it");
}

// What was committed is gone from the log, and with it what everybody has in memory of it.
static int went_back(struct db *db, int had_frames, struct err *e)
{
    db_metas_ended(db, false);
    db_tell_hooks(db, E_CORRUPT);
    return err_set(e, E_CORRUPT, "store went back: its log has %d pages that can be read, of %d", db->found_frames, had_frames);
}

// A read has failed. A cable or a controller may fail for a moment, and a salvage then would lose what can be read a moment later. So a
// fresh connection reads the whole file; only when that finds fault DOUBTS times, each at its own time, the file is damaged. Until then the
// store works on, as far as it can be read.
static int judge(struct db *db, struct err *e)
{
    struct err why = ERR_INIT;
    if (db_stmts_busy(db))
        return err_set(e, E_BUSY, "store is in doubt and a statement is in use");
    int had_frames = db->wal_frames;
    detach(db, true);
    int r = attach(db, true, &why);
    db->doubtful = r != 0;
    db->doubts = r != 0 ? db->doubts + 1 : 0;
    log_warn("db", "store-judged doubts=%d why=\"a read failed\" error=\"%s\"", db->doubts, r != 0 ? why.msg : "");
    if (r == E_CORRUPT && db->doubts >= DOUBTS)
        return heal(db, e);
    if (r != 0) {
        db->next_heal_ms = clock_mono(db->clock) + HEAL_AGAIN_MS;
        (void)!attach(db, false, NULL);
    }
    return db->sq != NULL && db->found_frames < had_frames ? went_back(db, had_frames, e) : 0;
}

// A transaction that is open comes first: it may well stand.
static int mend(struct db *db, struct err *e)
{
    return db->damaged || (db->sq == NULL && db->doubts == 0) ? heal(db, e) : judge(db, e);
}

void db_lazies_along(struct db *db)
{
    db->next_lazy_ms = 0;
}

int db_commit(struct db *db, struct err *e)
{
    if (needs_healing(db) && (db->damaged || !(db->open || db->doomed)))
        return mend(db, e);
    if (db->doomed)
        return end_doomed(db, e);
    if (!db->open)
        return 0;
    int64_t began = clock_mono(db->clock);
    bool lazies = lazies_wait(db) && began >= db->next_lazy_ms;
    int r = lazies ? write_lazies(db, e) : 0;
    if (r == 0)
        r = db_exec(db->sq, "COMMIT", e);
    db->stats.nospc += r == E_NOSPC;
    db_note_error(db, r);
    if (r != 0) {
        db_end_failed(db, r);
        db->doomed = false;
        return r;
    }
    db->open = false;
    if (lazies)
        db->next_lazy_ms = began + DB_LAZY_MS;
    db_metas_ended(db, true);
    db_tell_hooks(db, 0);
    empty_log(db);
    count_commit(db, began);
    return 0;
}

// --- What is known of it

const struct db_salvage *db_salvaged(const struct db *db)
{
    return &db->salvage;
}

int db_bad_row(struct db *db, const char *table, const char *key, struct err *e)
{
    db->stats.rows_bad_crc++;
    return err_set(e, E_CORRUPT, "store: the %s row of %s is damaged", table, key);
}

int64_t db_room(struct db *db)
{
    int64_t used = query_pragma(db, "PRAGMA page_count") - query_pragma(db, "PRAGMA freelist_count");
    return MAX(db->max_pages - used, 0) * DB_PAGE;
}

void db_stats(struct db *db, struct db_stats *out)
{
    *out = db->stats;
    out->file_bytes = size_of(db, SQLITE_FCNTL_FILE_POINTER);
    out->wal_bytes = size_of(db, SQLITE_FCNTL_JOURNAL_POINTER);
}
