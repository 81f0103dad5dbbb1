// SPDX-License-Identifier: Apache-2.0
// sim_disk — a disk in memory that forgets what was not synced.
//
// A name leads to a file now, and perhaps to another one (or none) after a power cut; a file's bytes are what was synced and the writes
// since. A power cut picks, by chance: for each directory how many of the changes of names since its last sync are kept; for each file
// which writes since its last sync are kept, and of those which sectors. Directories themselves and modes are durable at once, as on
// journalling file systems.
// The disk outlives agents; each agent gets its own struct disk over it (watches die with the agent).
#ifndef SIM_DISK_H
#define SIM_DISK_H

#include "base/fsio.h"
#include "sim.h"

enum { SIM_PATH_MAX = 300, SECTOR = 512, SIM_BLOCK = 4096 };

struct sim_write { // since the last sync: bytes at `off`, or (p == NULL) a truncation to `off`
    struct list link;
    int64_t off;
    size_t n;
    char *p;
};

struct sim_file {
    int refs;
    enum fs_type type;
    uint32_t mode, uid, gid;
    int64_t mtime_us;
    struct buf now, synced;
    struct list writes;
    int locks; // of SQLite connections
};

struct sim_name {
    struct list link;
    char path[SIM_PATH_MAX];
    struct sim_file *now, *synced; // NULL = no such file
    uint64_t change;               // number of the last change since the sync, 0 = none
};

struct sim_disk {
    struct sim *sim;
    struct sim_rng rng;
    struct list names; // by path
    uint64_t changes;
    bool full;                                                                      // no space left
    int error_permille;                                                             // of the writes and fsyncs that fail with an I/O error
    bool reads_fail;                                                                // and of the reads
    int64_t sync_ms;                                                                // so long takes an fsync
    bool sync_failed;                                                               // since the last power cut
    int open_files;                                                                 // of SQLite
    void (*written)(struct sim_disk *d, const char *path, const void *p, size_t n); // by the agent, as a whole; may be NULL
    void (*removed)(struct sim_disk *d, const char *path);                          // by the agent; may be NULL
    bool calm;                                                                      // the world itself reads: nothing fails
    uint64_t store_writes;  // writes and syncs of SQLite files, and whole files written
    uint64_t blocks_synced; // of SQLite files: blocks that had to be written at an fsync, each as often as it had
    int64_t last_write_ms;  // of the world's time
    // The agent's side.
    struct disk disk;
    struct loop *loop;
    struct loop_fd bell;
    struct list watches, news;
    struct sim_event ring;
    char vfs_name[32];
    void *vfs;
};

void sim_disk_init(struct sim_disk *d, struct sim *s);
void sim_disk_fini(struct sim_disk *d);
struct disk *sim_disk_for(struct sim_disk *d, struct loop *l); // the next agent's; its `free` only forgets watches
void sim_disk_leave(struct sim_disk *d);                       // that agent is gone
void sim_disk_power_cut(struct sim_disk *d);
void sim_disk_write_back(struct sim_disk *d); // everything is synced, as before an orderly end

// What lies there, for the world and the checks; NULL = nothing.
struct sim_file *sim_disk_at(struct sim_disk *d, const char *path);
void sim_disk_put(struct sim_disk *d, const char *path, const char *text, uint32_t mode); // by somebody else than the agent
void sim_disk_remove(struct sim_disk *d, const char *path);
bool sim_disk_flip(struct sim_disk *d, const char *path, uint64_t where); // one bit of what lies there, at rest; false: nothing lies there

// For sim_vfs.c.
struct sim_file *sim_file_create(struct sim_disk *d, const char *path);
struct sim_file *sim_file_ref(struct sim_file *f);
void sim_file_unref(struct sim_file *f);
int sim_file_write(struct sim_file *f, const void *p, size_t n, int64_t off); // < 0: out of memory
int sim_file_truncate(struct sim_file *f, int64_t size);
uint64_t sim_file_dirty(const struct sim_file *f);         // blocks to be written at the next sync
int sim_file_sync(struct sim_disk *d, struct sim_file *f); // < 0: an I/O error, and what was written since the last sync may never be
void sim_file_settle(struct sim_file *f);                  // synced, whatever the disk is like
bool sim_disk_errs(struct sim_disk *d, enum sim_fault f);  // by chance, while the disk has errors
void sim_dir_sync(struct sim_disk *d, const char *path_in_it);
void sim_name_set(struct sim_disk *d, const char *path, struct sim_file *f); // takes a reference of its own; NULL removes
void sim_name_move(struct sim_disk *d, const char *from, const char *to);
void sim_vfs_register(struct sim_disk *d);
void sim_vfs_unregister(struct sim_disk *d);
int64_t sim_vfs_memory(void);   // bytes that SQLite holds
void sim_vfs_many_stores(void); // the first store bounds the memory of all in the process: no more

#endif
