// SPDX-License-Identifier: Apache-2.0
//
// limpetctl install: what all nodes share, applied in place. Running it again changes nothing; running a newer one upgrades.
#include <stdio.h>
#include <string.h>

#include "ctl/cmd.h"
#include "wire/yaml.h"

enum {
    SERVED_TIMEOUT_MS = 60000,
    SERVED_POLL_MS = 200,
};

static int apply_one(struct api *a, const struct manifest *m, bool dry_run, struct err *e)
{
    char label[320];
    enum applied how;
    struct err why = ERR_INIT;

    api_label(label, sizeof(label), m->api_version, m->kind, m->name);
    int r = api_apply(a, m, m->ns, m->name, m->text, dry_run, &how, &why);
    if (r == E_NOTFOUND && dry_run && m->ns[0] != '\0') { // its namespace is only tried, too
        printf("%s would come into namespace %s, which is not there yet\n", label, m->ns);
        return 0;
    }
    if (r != 0) {
        *e = why;
        return err_wrap(e, "applying %s", label);
    }
    printf("%s %s%s\n", label, applied_word(how), dry_run ? " (server dry run)" : "");
    return 0;
}

static bool is_established(const struct json *crd)
{
    json_each(c, json_path(crd, "status.conditions"))
    {
        const char *type = json_str(json_get(c, "type"));
        const char *status = json_str(json_get(c, "status"));
        if (type != NULL && status != NULL && strcmp(type, "Established") == 0)
            return strcmp(status, "True") == 0;
    }
    return false;
}

// One look: *served tells whether requests for the kind would be answered. A name is PLURAL.GROUP.
static int look(struct api *a, const struct manifest *m, bool *served, struct err *e)
{
    char path[HTTP_URL_MAX];
    struct json *crd AUTO_JSON = NULL;
    struct err why = ERR_INIT;

    *served = false;
    int r = api_path(path, m->api_version, m->kind, m->ns, m->name, e);
    if (r == 0)
        r = api_get(a, path, &crd, e);
    if (r != 0 || !is_established(crd))
        return r;
    // Established comes a moment before the first request is answered.
    int plural = (int)strcspn(m->name, ".");
    snprintf(path, sizeof(path), "/apis/%s/v1alpha1/%.*s?limit=1", m->name + plural + 1, plural, m->name);
    r = api_get(a, path, NULL, &why);
    *served = r == 0;
    if (r == 0 || r == E_UNSUP || r == E_NOTFOUND || r == E_BUSY)
        return 0;
    *e = why;
    return r;
}

static int wait_served(struct api *a, const struct manifest *m, struct err *e)
{
    int64_t end = clock_mono(&a->clock) + SERVED_TIMEOUT_MS;
    for (;;) {
        bool served;
        int r = look(a, m, &served, e);
        if (r != 0 || served)
            return r;
        if (clock_mono(&a->clock) > end)
            return err_set(e, E_TIMEOUT, "%s is not served after %d s", m->name, SERVED_TIMEOUT_MS / 1000);
        r = api_pause(a, SERVED_POLL_MS, e);
        if (r != 0)
            return r;
    }
}

static int install(struct api *a, bool dry_run, struct err *e)
{
    for (const struct manifest *m = cluster_manifests; m->kind != NULL; m++) {
        int r = apply_one(a, m, dry_run, e);
        if (r != 0)
            return r;
    }
    for (const struct manifest *m = cluster_manifests; m->kind != NULL && !dry_run; m++) {
        int r = strcmp(m->kind, "CustomResourceDefinition") == 0 ? wait_served(a, m, e) : 0;
        if (r != 0)
            return r;
    }
    return 0;
}

// Servers before 1.31 do not know selectableFields.
static const char *remedy_for(const struct err *e)
{
    if (strstr(e->msg, "field not declared in schema") != NULL)
        return "this server is too old: limpet needs Kubernetes 1.31 or later";
    if (e->cls == E_TIMEOUT)
        return "kubectl describe crd says what the server waits for; install can be run again";
    return NULL;
}

// --- --print

static void print_yaml(void)
{
    for (const struct manifest *m = cluster_manifests; m->kind != NULL; m++)
        printf("---\n%s", m->text);
}

static int print_json(struct err *e)
{
    struct buf out AUTO_BUF = BUF_INIT(YAML_TEXT_MAX);
    int r = buf_adds(&out, "{\"apiVersion\":\"v1\",\"kind\":\"List\",\"items\":[\n", e);
    for (const struct manifest *m = cluster_manifests; r == 0 && m->kind != NULL; m++) {
        r = yaml_to_json(m->text, strlen(m->text), 0, &out, e);
        if (r == 0)
            r = buf_adds(&out, m[1].kind != NULL ? ",\n" : "\n]}\n", e);
    }
    if (r == 0)
        fputs(buf_str(&out), stdout);
    return r;
}

static int print(const struct options *o)
{
    struct err e = ERR_INIT;
    bool json = o->output != NULL && strcmp(o->output, "json") == 0;
    if (o->output != NULL && !json && strcmp(o->output, "yaml") != 0) {
        err_set(&e, E_INVAL, "unknown output format \"%s\"", o->output);
        cmd_fail(&e, "the formats are yaml and json");
        return EXIT_USAGE;
    }
    if (!json)
        print_yaml();
    else if (print_json(&e) < 0)
        return cmd_fail(&e, NULL);
    return EXIT_DONE;
}

int cmd_install(const struct options *o)
{
    struct api a;
    struct err e = ERR_INIT;

    if (o->print)
        return print(o);
    if (cmd_open(&a, o) != EXIT_DONE)
        return EXIT_FAILED;
    int r = install(&a, o->dry_run, &e);
    api_close(&a);
    return r == 0 ? EXIT_DONE : cmd_fail(&e, remedy_for(&e));
}
