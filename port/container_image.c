// SPDX-License-Identifier: Apache-2.0
// Images: one question or pull at a time, beside the one tool that everything else uses, for a pull takes as long as the network does. What
// each owner wants is one entry; kubelet's waits between the tries. A start does without the registry: it is only asked here, before.
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/log.h"
#include "port/container.h"

enum {
    ASK_MS = 60 * 1000,
    PULL_MS = 30 * 60 * 1000, // a large image over a slow link; what came of it the engine may keep
    BACKOFF_FIRST_MS = 10 * 1000,
    BACKOFF_MAX_MS = 5 * 60 * 1000,
    NOBODY_MS = 20 * 60 * 1000, // an owner that has not asked for so long is gone: each is looked at every 5 min
    OUTPUT_MAX = 16 * 1024,
    ARGS_MAX = 64 * 1024,
};

enum image_step { STEP_NONE, STEP_ASK, STEP_PULL };

struct ct_image {
    struct list link;
    char owner[INST_OWNER_MAX], revision[INST_REV_MAX], name[520];
    enum image_pull pull;
    struct image_view view;
    enum image_step due;
    bool there; // the machine has one, as it said last
    int64_t not_before_ms, wait_ms, used_ms;
};

static struct ct_image *image_of(struct list *l)
{
    return container_of(l, struct ct_image, link);
}

static int64_t now_ms(const struct ct_port *p)
{
    return clock_mono(p->clock);
}

// --- what is next

static struct ct_image *next_image(struct ct_port *p, int64_t *wait_ms)
{
    struct ct_image *best = NULL;
    list_each(it, &p->images) {
        struct ct_image *i = image_of(it);
        if (i->due != STEP_NONE && (best == NULL || i->not_before_ms < best->not_before_ms))
            best = i;
    }
    *wait_ms = best != NULL ? MAX(best->not_before_ms - now_ms(p), 0) : 0;
    return best;
}

static void plan(struct ct_port *p)
{
    int64_t wait_ms;
    if (p->busy == NULL && p->image_run.impl == NULL && next_image(p, &wait_ms) != NULL)
        (void)timer_in(p->loop, &p->image_next, wait_ms);
}

static void tell(struct ct_port *p, const struct ct_image *i)
{
    if (p->port.changed != NULL)
        p->port.changed(p->port.ctx, i->owner);
}

static void drop(struct ct_port *p, struct ct_image *i)
{
    if (p->busy == i)
        p->busy = NULL; // its answer is nobody's
    list_del(&i->link);
    p->n_images--;
    free(i);
}

// --- answers

static void ready(struct ct_image *i, bool stale, const char *why)
{
    i->view = (struct image_view){ .state = IMAGE_READY, .stale = stale };
    snprintf(i->view.why, sizeof(i->view.why), "%s", why);
    i->due = STEP_NONE;
    i->wait_ms = 0;
}

static void failed(struct ct_port *p, struct ct_image *i, const char *why)
{
    i->wait_ms = i->wait_ms > 0 ? MIN(2 * i->wait_ms, BACKOFF_MAX_MS) : BACKOFF_FIRST_MS;
    i->not_before_ms = now_ms(p) + i->wait_ms;
    i->view = (struct image_view){ .state = IMAGE_FAILED };
    snprintf(i->view.why, sizeof(i->view.why), "%.120s: %.70s", why, i->name);
    log_warn("container", "image-not-there image=%s again_s=%" PRId64 " error=\"%s\"", i->name, i->wait_ms / 1000, why);
}

// The registry is asked before what is here is used; without it what is here does.
static void asked(struct ct_port *p, struct ct_image *i, const struct port_run *r, const struct err *e, const char *why)
{
    i->there = e == NULL && r->code == 0;
    if (!i->there && (e != NULL || !show_no_image(buf_str(&r->output)))) {
        failed(p, i, why);
    } else if (i->there && i->pull != IMAGE_PULL_ALWAYS) {
        ready(i, false, "");
    } else if (i->pull == IMAGE_PULL_NEVER) {
        i->due = STEP_NONE;
        i->view = (struct image_view){ .state = IMAGE_ABSENT };
        snprintf(i->view.why, sizeof(i->view.why), "the machine has no image %.100s, and imagePullPolicy is Never", i->name);
    } else {
        i->due = STEP_PULL;
        i->view = (struct image_view){ .state = IMAGE_PULLING };
        snprintf(i->view.why, sizeof(i->view.why), "pulling image %.150s", i->name);
    }
}

static void pulled(struct ct_port *p, struct ct_image *i, const struct port_run *r, const struct err *e, const char *why)
{
    if (e == NULL && r->code == 0) {
        log_info("container", "pulled image=%s", i->name);
        ready(i, false, "");
    } else if (i->there) {
        log_warn("container", "image-from-before image=%s error=\"%s\"", i->name, why);
        ready(i, true, why);
    } else {
        i->due = STEP_ASK; // it may be brought by hand meanwhile
        failed(p, i, why);
    }
}

static void on_done(struct port_run *r, const struct err *e)
{
    struct ct_port *p = container_of(r, struct ct_port, image_run);
    struct ct_image *i = steal(p->busy);
    char why[160];
    show_reason(e != NULL ? e->msg : buf_str(&r->output), why, sizeof(why));
    if (i != NULL && i->due == STEP_PULL)
        pulled(p, i, r, e, why);
    else if (i != NULL)
        asked(p, i, r, e, why);
    buf_fini(&r->output);
    arena_reset(&p->image_args);
    r->impl = NULL;
    plan(p);
    if (i != NULL)
        tell(p, i);
}

// --- questions

static int begin(struct ct_port *p, const struct ct_image *i, struct err *e)
{
    bool pull = i->due == STEP_PULL;
    const char **argv = arena_alloc(&p->image_args, 8 * sizeof(*argv)), **env = ct_environment(&p->image_args, pull, NULL);
    char *name = arena_strdup(&p->image_args, i->name);
    if (argv == NULL || env == NULL || name == NULL)
        return err_set(e, E_NOMEM, "no memory for the container tool");
    static const char *const ask_words[] = { "image", "inspect", "--format", "{{.ID}}" }, *const pull_words[] = { "pull", "--quiet" };
    size_t n = 0;
    argv[n++] = p->tool;
    for (size_t k = 0; k < (pull ? ARRAY_LEN(pull_words) : ARRAY_LEN(ask_words)); k++)
        argv[n++] = pull ? pull_words[k] : ask_words[k];
    argv[n] = name;
    p->image_run = (struct port_run){
        .exec = { .argv = argv, .env = env }, .timeout_ms = pull ? PULL_MS : ASK_MS, .output_max = OUTPUT_MAX, .done = on_done
    };
    return p->exec->ops->run(p->exec, &p->image_run, e);
}

static void on_next(struct timer *t)
{
    struct ct_port *p = container_of(t, struct ct_port, image_next);
    struct err e = ERR_INIT;
    int64_t wait_ms;
    struct ct_image *i = next_image(p, &wait_ms);
    if (i == NULL || wait_ms > 0 || p->busy != NULL) {
        plan(p);
        return;
    }
    if (now_ms(p) - i->used_ms > NOBODY_MS) {
        drop(p, i);
        plan(p);
        return;
    }
    p->busy = i;
    if (begin(p, i, &e) == 0)
        return;
    p->busy = NULL;
    arena_reset(&p->image_args);
    failed(p, i, e.msg);
    plan(p);
}

// --- entries

static struct ct_image *find(struct ct_port *p, const char *owner)
{
    list_each(it, &p->images)
        if (strcmp(image_of(it)->owner, owner) == 0)
            return image_of(it);
    return NULL;
}

static void drop_oldest(struct ct_port *p)
{
    struct ct_image *oldest = NULL;
    list_each(it, &p->images)
        if (oldest == NULL || image_of(it)->used_ms < oldest->used_ms)
            oldest = image_of(it);
    if (oldest != NULL)
        drop(p, oldest);
}

// What was found out for another image, or for an earlier revision that asks each time, counts no more.
static bool is_same(const struct ct_image *i, const char *revision, const char *image, enum image_pull pull)
{
    return strcmp(i->name, image) == 0 && i->pull == pull && (pull != IMAGE_PULL_ALWAYS || strcmp(i->revision, revision) == 0);
}

static struct ct_image *make(struct ct_port *p, const char *owner, const char *revision, const char *image, enum image_pull pull)
{
    struct ct_image *i = calloc(1, sizeof(*i));
    if (i == NULL)
        return NULL;
    if (p->n_images >= CT_IMAGES_MAX)
        drop_oldest(p);
    snprintf(i->owner, sizeof(i->owner), "%s", owner);
    snprintf(i->revision, sizeof(i->revision), "%s", revision);
    snprintf(i->name, sizeof(i->name), "%s", image);
    i->pull = pull;
    i->due = STEP_ASK;
    i->view.state = IMAGE_ASKED;
    snprintf(i->view.why, sizeof(i->view.why), "looking for image %.150s", image);
    i->not_before_ms = now_ms(p);
    list_add_tail(&p->images, &i->link);
    p->n_images++;
    return i;
}

int ct_image(struct port *port, const char *owner, const char *revision, const char *image, enum image_pull pull, struct image_view *out,
             struct err *e)
{
    struct ct_port *p = container_of(port, struct ct_port, port);
    struct ct_image *i = find(p, owner);
    if (image[0] == '-' || strlen(image) >= sizeof(i->name))
        return err_set(e, E_INVAL, "\"%.64s\" is no name of an image", image);
    if (i != NULL && !is_same(i, revision, image, pull)) {
        drop(p, i);
        i = NULL;
    }
    if (i == NULL)
        i = make(p, owner, revision, image, pull);
    if (i == NULL)
        return err_set(e, E_NOMEM, "no memory for image %.64s", image);
    i->used_ms = now_ms(p);
    if (i->view.state == IMAGE_ABSENT && i->due == STEP_NONE) { // brought by hand meanwhile?
        i->due = STEP_ASK;
        i->wait_ms = i->wait_ms > 0 ? MIN(2 * i->wait_ms, BACKOFF_MAX_MS) : BACKOFF_FIRST_MS;
        i->not_before_ms = now_ms(p) + i->wait_ms;
    }
    *out = i->view;
    out->waits = i->view.state == IMAGE_FAILED && p->busy != i && i->wait_ms > BACKOFF_FIRST_MS;
    plan(p);
    return 0;
}

void ct_image_lost(struct ct_port *p, const char *owner)
{
    struct ct_image *i = find(p, owner);
    if (i != NULL)
        drop(p, i);
}

void ct_images_init(struct ct_port *p)
{
    list_init(&p->images);
    arena_init(&p->image_args, ARGS_MAX);
    timer_init(&p->image_next, on_next);
    if (timer_in(p->loop, &p->image_next, 0) == 0)
        timer_cancel(p->loop, &p->image_next);
}

void ct_images_fini(struct ct_port *p)
{
    p->exec->ops->run_cancel(p->exec, &p->image_run);
    timer_cancel(p->loop, &p->image_next);
    list_each_safe(it, next, &p->images)
        drop(p, image_of(it));
    arena_reset(&p->image_args);
    buf_fini(&p->image_run.output);
}
