// SPDX-License-Identifier: Apache-2.0
#include "port/container_show.h"

#include <limits.h>
#include <stdio.h>
#include <string.h>

#include "data/json.h"

#define LABEL(name) "{{json (index .Config.Labels \"" CONTAINER_LABEL name "\")}}"

const char show_ids[] = "{{.ID}}";
const char show_container[] = "{\"id\":{{json .ID}},\"state\":{{json .State}},\"signal\":{{json .Config.StopSignal}},\"uid\":" LABEL(
    "uid") ",\"owner\":" LABEL("owner") ",\"revision\":" LABEL("revision") ",\"index\":" LABEL("index") ",\"boot\":" LABEL("boot") "}";

static void take_text(char *out, size_t size, const struct json *j)
{
    const char *s = json_str(j);
    snprintf(out, size, "%s", s != NULL ? s : "");
}

static enum show_status status_of(const char *word)
{
    static const char *const created[] = { "created", "configured", "initialized" };
    static const char *const ended[] = { "exited", "stopped", "dead" };
    for (size_t i = 0; i < ARRAY_LEN(created); i++)
        if (strcmp(word, created[i]) == 0)
            return SHOW_CREATED;
    for (size_t i = 0; i < ARRAY_LEN(ended); i++)
        if (strcmp(word, ended[i]) == 0)
            return SHOW_ENDED;
    return SHOW_RUNNING; // paused, stopping, restarting, removing: it is still there
}

// A moment before 1970 is the engines' "not yet" (the year 1).
static int64_t moment(const struct json *state, const char *name)
{
    int64_t us;
    const char *s = json_str(json_get(state, name));
    return s != NULL && rfc3339_parse(s, &us) && us > 0 ? us : 0;
}

// podman gives a number, docker a name, or nothing for the usual one.
static void take_signal(char out[CONTAINER_SIGNAL_MAX], const struct json *j)
{
    int64_t n;
    const char *s = json_str(j);
    if (json_i64(j, &n) && n > 0 && n < 65)
        snprintf(out, CONTAINER_SIGNAL_MAX, "%d", (int)n);
    else if (s != NULL && s[0] != '\0' && s[strspn(s, "ABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789+-")] == '\0')
        snprintf(out, CONTAINER_SIGNAL_MAX, "%s", s);
    else
        snprintf(out, CONTAINER_SIGNAL_MAX, "TERM");
}

static int number(const struct json *j, const char *name)
{
    int64_t v;
    return json_i64(json_get(j, name), &v) && v >= 0 && v <= INT_MAX ? (int)v : 0;
}

static bool is_id(const char *s, size_t n)
{
    return n >= 12 && n < CONTAINER_ID_MAX && strspn(s, "0123456789abcdef") >= n;
}

static bool take_container(struct show_container *c, const struct json *j)
{
    const struct json *state = json_get(j, "state");
    const char *index = json_path_str(j, "index");
    *c = (struct show_container){ .index = (int)strtol(index, NULL, 10) };
    take_text(c->id, sizeof(c->id), json_get(j, "id"));
    take_text(c->uid, sizeof(c->uid), json_get(j, "uid"));
    take_text(c->owner, sizeof(c->owner), json_get(j, "owner"));
    take_text(c->revision, sizeof(c->revision), json_get(j, "revision"));
    take_text(c->boot, sizeof(c->boot), json_get(j, "boot"));
    take_text(c->error, sizeof(c->error), json_get(state, "Error"));
    take_signal(c->signal, json_get(j, "signal"));
    c->status = status_of(json_path_str(state, "Status"));
    c->pid = c->status == SHOW_RUNNING ? number(state, "Pid") : 0;
    c->code = number(state, "ExitCode");
    c->oom = json_bool(json_get(state, "OOMKilled"), false);
    c->started_us = moment(state, "StartedAt");
    c->ended_us = moment(state, "FinishedAt");
    return is_id(c->id, strlen(c->id)) && c->uid[0] != '\0' && c->owner[0] != '\0';
}

static const char *next_line(const char **at, size_t *n)
{
    const char *line = *at;
    *n = strcspn(line, "\n");
    *at += *n + (line[*n] == '\n');
    return line;
}

bool show_container_next(const char **at, struct show_container *out)
{
    while (**at != '\0') {
        size_t n;
        struct json *j = NULL;
        struct err ignored = ERR_INIT;
        const char *line = next_line(at, &n);
        if (n == 0 || line[0] != '{' || json_parse(&j, line, n, &ignored) < 0)
            continue;
        bool whole = take_container(out, j);
        json_free(j);
        if (whole)
            return true;
    }
    return false;
}

bool show_id_next(const char **at, char id[CONTAINER_ID_MAX])
{
    while (**at != '\0') {
        size_t n;
        const char *line = next_line(at, &n);
        if (!is_id(line, n))
            continue;
        snprintf(id, CONTAINER_ID_MAX, "%.*s", (int)n, line);
        return true;
    }
    return false;
}

// --- failures

static const char *after(const char *line, size_t n, const char *word)
{
    size_t w = strlen(word);
    for (size_t i = 0; i + w <= n; i++)
        if (strncmp(line + i, word, w) == 0)
            return line + i + w;
    return NULL;
}

void show_reason(const char *output, char *out, size_t size)
{
    const char *best = "", *at = output;
    size_t len = 0, n;
    bool named = false;
    while (*at != '\0') {
        const char *line = next_line(&at, &n);
        const char *error = after(line, n, "rror: ");
        if (error == NULL)
            error = after(line, n, "Error response from daemon: ");
        if (n == 0 || (named && error == NULL))
            continue;
        named = named || error != NULL;
        best = error != NULL ? error : line;
        len = (size_t)(line + n - best);
    }
    snprintf(out, size, "%.*s", (int)MIN(len, size - 1), best);
    for (char *c = out; *c != '\0'; c++)
        if ((unsigned char)*c < ' ' || *c == '"')
            *c = *c == '"' ? '\'' : ' ';
}

bool show_no_image(const char *output)
{
    static const char *const words[] = { "image not known", "o such image", "o such object" };
    for (size_t i = 0; i < ARRAY_LEN(words); i++)
        if (strstr(output, words[i]) != NULL)
            return true;
    return false;
}

enum container_tool show_tool(const char *version)
{
    return strncmp(version, "podman", 6) == 0 ? TOOL_PODMAN : TOOL_DOCKER;
}
