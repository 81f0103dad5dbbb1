// SPDX-License-Identifier: Apache-2.0
#include "kinds/edgeconfig_spec.h"

#include <signal.h>
#include <stdio.h>
#include <string.h>

#include "kinds/field.h"
#include "kinds/node_names.h"
#include "wire/base64.h"

const char *const cfg_deletion_words[] = { "Restore", "Delete", "Keep", NULL };

static bool is_mode(const char *s)
{
    size_t n = strspn(s, "01234567");
    return s[n] == '\0' && (n < 5 || s[0] == '0');
}

static bool has_control(const char *s)
{
    for (; *s != '\0'; s++)
        if ((unsigned char)*s < 0x20 || *s == 0x7f)
            return true;
    return false;
}

static void check_path(const struct field *f, const char *path, const struct cfg_guard *g)
{
    struct err why = ERR_INIT;
    if (has_control(path))
        field_bad(f, "must have no control characters");
    else if (path_check(path, &why) < 0)
        field_bad(f, "%s", why.msg);
    for (size_t i = 0; i < CFG_OWN_DIRS_MAX; i++)
        if (g->own[i] != NULL && path_below(path, g->own[i]))
            field_bad(f, "%.200s lies in the agent's own directory %s", path, g->own[i]);
    for (size_t i = 0; g->paths[i] != NULL; i++)
        if (path_below(path, g->paths[i]))
            return;
    field_bad(f, "%.200s is not below a directory that this node lets be written ([guard] paths)", path);
}

// The schema allows one alphabet, the decoder knows both.
static void decode_base64(struct cfg_entry *out, const struct field *content)
{
    struct err why = ERR_INIT;
    struct buf bytes AUTO_BUF = BUF_INIT(CFG_CONTENT_MAX);
    bool ok = strpbrk(out->content, "-_") == NULL && base64_decode(out->content, out->len, &bytes, &why) == 0;
    char *copy = arena_alloc(content->d->arena, bytes.len + 1);
    if (!ok)
        field_bad(content, "must be base64");
    else if (copy == NULL)
        field_no_memory(content);
    else
        memcpy(copy, buf_str(&bytes), bytes.len);
    out->content = copy;
    out->len = bytes.len;
}

// What can be said of it without a machine: are all of its names ones that could stand for something?
static void check_template(const struct cfg_entry *f, const struct field *content)
{
    struct err why = ERR_INIT;
    struct buf ignored AUTO_BUF = BUF_INIT(CFG_CONTENT_MAX);
    int rc = template_render(f->content, f->len, &node_names_possible, &ignored, &why);
    if (rc == E_NOTFOUND || rc == E_INVAL)
        field_bad(content, "%s", why.msg);
    else if (rc < 0)
        field_no_memory(content);
}

// What the revision knows of a content that comes from elsewhere: the value itself is none of a revision's.
static void decode_content_from(struct cfg_entry *out, const struct field *from)
{
    char text[600];
    out->content = "";
    ref_decode_key(&out->from, from);
    if (from->d->rc != 0)
        return;
    ref_text(&out->from, text, sizeof(text));
    sha256_hex(text, strlen(text), out->sha);
}

static void decode_content(struct cfg_entry *out, const struct field *f)
{
    static const struct text_rule rule = { 0, CFG_CONTENT_MAX, NULL, NULL };
    static const char *const encodings[] = { "utf-8", "base64", NULL };
    struct field content = field_get(f, "content"), from = field_get(f, "contentFrom");
    if (field_present(&content) && field_present(&from))
        field_bad(f, "give content or contentFrom, not both");
    if (field_present(&from) && field_bool(f, "template", false))
        field_bad(f, "a value of contentFrom is no template");
    if (field_present(&from)) {
        decode_content_from(out, &from);
        return;
    }
    field_require(&content);
    out->content = field_text(f, "content", &rule, "");
    out->len = strlen(out->content);
    if (field_choice(f, "encoding", encodings, 0) == 1)
        decode_base64(out, &content);
    if (f->d->rc != 0)
        return;
    if (out->len > CFG_CONTENT_MAX)
        field_bad(&content, "has %zu bytes, more than %d", out->len, CFG_CONTENT_MAX);
    sha256_hex(out->content, out->len, out->sha);
    out->is_template = field_bool(f, "template", false);
    if (out->is_template && f->d->rc == 0)
        check_template(out, &content);
}

// Where it lies, and whose it is.
static void decode_place(struct cfg_entry *out, const struct field *f, const char *mode, const struct cfg_guard *g)
{
    static const struct text_rule path_rule = { 2, CFG_PATH_MAX, NULL, NULL };
    static const struct text_rule mode_rule = { 3, 5, is_mode, "permission bits in octal" };
    struct field path = field_get(f, "path");
    field_require(&path);
    out->path = field_text(f, "path", &path_rule, "/");
    check_path(&path, out->path, g);
    out->mode = (uint32_t)strtoul(field_text(f, "mode", &mode_rule, mode), NULL, 8);
    out->owner = field_text(f, "owner", &text_account, NULL);
    out->group = field_text(f, "group", &text_account, NULL);
}

static void decode_directory(struct cfg_entry *out, const struct field *f, const struct cfg_guard *g)
{
    decode_place(out, f, "0755", g);
    out->is_dir = true;
    out->content = "";
    strcpy(out->sha, CFG_DIR_SHA);
}

static void decode_file(struct cfg_entry *out, const struct field *f, const struct cfg_guard *g)
{
    struct field from = field_get(f, "contentFrom"), secret = field_get(&from, "secretKeyRef");
    decode_place(out, f, field_present(&secret) ? "0600" : "0644", g);
    if (f->d->rc == 0)
        decode_content(out, f);
}

static bool is_below_file(const struct cfg_entry *x, const struct cfg_entry *file)
{
    return !file->is_dir && path_below(x->path, file->path);
}

static void check_neighbours(const struct field *f, const struct cfg_entry *all, size_t n)
{
    const struct cfg_entry *x = &all[n];
    for (size_t i = 0; i < n; i++) {
        if (strcmp(x->path, all[i].path) == 0)
            field_bad(f, "path %.200s is there twice", x->path);
        else if (is_below_file(x, &all[i]) || is_below_file(&all[i], x))
            field_bad(f, "%.150s and %.150s: one would have to be a directory and a file at once", all[i].path, x->path);
    }
}

static void decode_list(struct cfg_spec *s, const struct field *list, size_t n, const struct cfg_guard *g,
                        void (*decode_one)(struct cfg_entry *out, const struct field *f, const struct cfg_guard *g))
{
    const struct json *item = json_first(list->j);
    for (size_t i = 0; i < n && list->d->rc == 0; item = json_next(item), i++) {
        struct field f = field_item(list, item, i);
        decode_one(&s->entries[s->n_entries], &f, g);
        check_neighbours(&f, s->entries, s->n_entries++);
    }
}

// Directories first, each after the one that it lies in.
static int by_place(const void *a, const void *b)
{
    const struct cfg_entry *x = a, *y = b;
    return x->is_dir != y->is_dir ? (int)y->is_dir - (int)x->is_dir : strcmp(x->path, y->path);
}

static void decode_entries(struct cfg_spec *s, const struct field *spec, const struct cfg_guard *g)
{
    struct field dirs = field_get(spec, "directories"), files = field_get(spec, "files");
    if (!field_present(&dirs))
        field_require(&files);
    size_t n_dirs = field_present(&dirs) ? field_count(&dirs, 1, CFG_DIRS_MAX) : 0;
    size_t n_files = field_present(&files) ? field_count(&files, 1, CFG_FILES_MAX) : 0;
    s->entries = arena_alloc(spec->d->arena, (n_dirs + n_files + 1) * sizeof(*s->entries));
    if (s->entries == NULL) {
        field_no_memory(spec);
        return;
    }
    decode_list(s, &dirs, n_dirs, g, decode_directory);
    s->n_dirs = s->n_entries;
    qsort(s->entries, s->n_dirs, sizeof(*s->entries), by_place);
    decode_list(s, &files, n_files, g, decode_file);
}

static void decode_command(struct cfg_command *c, const struct field *spec, const char *name)
{
    size_t n;
    struct field f = field_get(spec, name);
    if (!field_present(&f))
        return;
    struct field command = field_get(&f, "command");
    field_require(&command);
    c->argv = field_command(&f, "command", &n);
    c->timeout_ms = 1000 * field_int(&f, "timeoutSeconds", 1, 300, 30);
}

static void decode_app(struct cfg_app *a, const struct field *app)
{
    static const char *const words[] = { "HUP", "INT", "QUIT", "USR1", "USR2", "WINCH", NULL };
    static const int numbers[] = { SIGHUP, SIGINT, SIGQUIT, SIGUSR1, SIGUSR2, SIGWINCH };
    struct field name = field_get(app, "name"), signal = field_get(app, "signal");
    field_require(&name);
    a->name = field_text(app, "name", &text_object_name, "");
    a->restart = field_bool(app, "restart", false);
    a->signal = numbers[field_choice(app, "signal", words, 0)];
    if (a->restart == field_present(&signal))
        field_bad(app, "give exactly one of signal and restart");
}

static void decode_on_change(struct cfg_spec *s, const struct field *spec)
{
    struct field f = field_get(spec, "onChange"), app = field_get(&f, "app"), command = field_get(&f, "command");
    if (!field_present(&app)) {
        decode_command(&s->on_change, spec, "onChange");
        return;
    }
    if (field_present(&command))
        field_bad(&f, "give exactly one of command and app");
    decode_app(&s->on_app, &app);
}

static int by_path(const void *a, const void *b)
{
    const struct cfg_entry *const *x = a, *const *y = b;
    return strcmp((*x)->path, (*y)->path);
}

static void add_text(struct sha256 *h, const char *s)
{
    sha256_add(h, s != NULL ? s : "", s != NULL ? strlen(s) + 1 : 1); // no text holds a NUL
}

static int compute_revision(struct cfg_spec *s, struct arena *a, struct err *e)
{
    char hex[SHA256_HEX], mode[16];
    struct sha256 h;
    const struct cfg_entry **sorted = arena_alloc(a, (s->n_entries + 1) * sizeof(struct cfg_entry *));
    if (sorted == NULL)
        return err_set(e, E_TOOBIG, "spec: over the memory of a pass");
    for (size_t i = 0; i < s->n_entries; i++)
        sorted[i] = &s->entries[i];
    qsort(sorted, s->n_entries, sizeof(struct cfg_entry *), by_path);
    sha256_init(&h);
    for (size_t i = 0; i < s->n_entries; i++) {
        snprintf(mode, sizeof(mode), "%04o", (unsigned)sorted[i]->mode);
        const char *const parts[] = { sorted[i]->path, sorted[i]->sha, mode, sorted[i]->owner, sorted[i]->group };
        for (size_t k = 0; k < ARRAY_LEN(parts); k++)
            add_text(&h, parts[k]);
    }
    sha256_end_hex(&h, hex);
    snprintf(s->revision, sizeof(s->revision), "1-%.12s", hex);
    return 0;
}

int cfg_spec_revise(struct cfg_spec *s, struct arena *a, struct err *e)
{
    qsort(s->entries, s->n_entries, sizeof(*s->entries), by_place);
    s->n_dirs = 0;
    while (s->n_dirs < s->n_entries && s->entries[s->n_dirs].is_dir)
        s->n_dirs++;
    return compute_revision(s, a, e);
}

// --- Facts of the node

static int render_file(struct cfg_entry *f, const struct template_names *names, struct arena *a, struct err *e)
{
    struct buf text AUTO_BUF = BUF_INIT(CFG_CONTENT_MAX);
    int rc = template_render(f->content, f->len, names, &text, e);
    if (rc < 0)
        return rc;
    char *copy = arena_alloc(a, text.len + 1);
    if (copy == NULL)
        return err_set(e, E_TOOBIG, "over the memory of a pass");
    memcpy(copy, buf_str(&text), text.len);
    f->content = copy;
    f->len = text.len;
    sha256_hex(f->content, f->len, f->sha);
    return 0;
}

static bool has_templates(const struct cfg_spec *s)
{
    bool any = false;
    for (size_t i = 0; i < s->n_entries; i++)
        any |= s->entries[i].is_template;
    return any;
}

int cfg_spec_render(struct cfg_spec *s, const struct kind_env *env, struct arena *a, struct err *e)
{
    struct node_names n;
    if (!has_templates(s))
        return 0;
    int rc = node_names_init(&n, env, e);
    struct template_names names = node_names_of(&n);
    for (size_t i = 0; rc == 0 && i < s->n_entries; i++)
        if (s->entries[i].is_template && (rc = render_file(&s->entries[i], &names, a, e)) < 0)
            err_wrap(e, "spec.files[%zu].content", i - s->n_dirs);
    node_names_fini(&n);
    return rc == 0 ? compute_revision(s, a, e) : rc;
}

int cfg_spec_decode(struct cfg_spec *s, const struct json *spec, const char *node, const struct cfg_guard *g, struct arena *a,
                    struct err *e)
{
    struct decode d = { .arena = a, .err = e };
    struct field f = field_root(&d, spec, "spec");
    *s = (struct cfg_spec){ 0 };
    field_require(&f);
    field_node_name(&f, node);
    decode_entries(s, &f, g);
    decode_command(&s->validate, &f, "validate");
    decode_on_change(s, &f);
    s->confirm_ms = 1000 * field_int(&f, "confirmSeconds", 10, 3600, 0);
    s->deletion = (enum cfg_deletion)field_choice(&f, "deletionPolicy", cfg_deletion_words, CFG_RESTORE);
    return d.rc == 0 ? compute_revision(s, a, e) : d.rc;
}

int cfg_spec_on_change(struct cfg_spec *s, const char *text, struct json **out, struct arena *a, struct err *e)
{
    struct decode d = { .arena = a, .err = e };
    struct json *change = NULL;
    if (text == NULL)
        return 0;
    int rc = json_parse(&change, text, strlen(text), e);
    if (rc < 0)
        return err_wrap(e, "onChange");
    *out = json_object();
    json_set(*out, "onChange", change);
    struct field f = field_root(&d, *out, "spec");
    decode_on_change(s, &f);
    return d.rc;
}

const struct cfg_entry *cfg_spec_entry(const struct cfg_spec *s, const char *path, bool is_dir)
{
    for (size_t i = 0; i < s->n_entries; i++)
        if (s->entries[i].is_dir == is_dir && strcmp(s->entries[i].path, path) == 0)
            return &s->entries[i];
    return NULL;
}
