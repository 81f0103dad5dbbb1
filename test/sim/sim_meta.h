// SPDX-License-Identifier: Apache-2.0
// sim_meta — KubeEdge's MetaServer between the agent and the server: a cache that answers 200 with wrong data when it has lost its cloud.
//
// Online it passes requests through, and remembers what GETs returned; what other programs of the node read lies in its cache, too, and gets
// old there. An object that was deleted meanwhile is still returned by GET. Whatever error the cloud gives to a read, the cache answers
// instead. Offline lists have a kind in the wrong case ("EdgeappList"), know no limit and few selectors; writes are 500. With a frozen cloud
// each request takes 10 s, then it is the same. Once lost, the cloud is not back before 31 s.
// What it answers offline to a GET of what it never saw was not measured: the worst is assumed, a 404.
// Watches are not modelled: an agent that watches through it is a violation, for it would be told the dead again and again.
#ifndef SIM_META_H
#define SIM_META_H

#include "sim_server.h"

enum sim_cloud { CLOUD_THERE, CLOUD_AWAY, CLOUD_FROZEN };

struct sim_meta {
    struct sim_server *server;
    struct sim_rng rng;
    enum sim_cloud cloud;
    struct list cached;  // struct remembered
    int curious_percent; // of objects that another program reads while we list
    uint64_t lies;       // answers from the cache
};

void sim_meta_init(struct sim_meta *m, struct sim_server *v); // stands before it from now on
void sim_meta_fini(struct sim_meta *m);
void sim_meta_cloud(struct sim_meta *m, enum sim_cloud c);
void sim_meta_forget(struct sim_meta *m); // it starts with an empty cache
void sim_meta_answer(struct sim_meta *m, const struct sim_request *r, struct sim_answer *a);

#endif
