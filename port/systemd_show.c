// SPDX-License-Identifier: Apache-2.0
#include "port/systemd_show.h"

#include <limits.h>
#include <stdio.h>
#include <string.h>

const char show_properties[] = "--property=Id,LoadState,ActiveState,SubState,Result,Job,MainPID,ExecMainCode,ExecMainStatus,"
                               "ExecMainStartTimestampMonotonic,ExecMainExitTimestampMonotonic,NRestarts";

static enum show_active active_of(const char *word)
{
    static const struct {
        const char *word;
        enum show_active active;
    } words[] = { { "active", SHOW_ACTIVE },
                  { "reloading", SHOW_ACTIVE },
                  { "refreshing", SHOW_ACTIVE },
                  { "activating", SHOW_ACTIVATING },
                  { "deactivating", SHOW_DEACTIVATING } };
    for (size_t i = 0; i < ARRAY_LEN(words); i++)
        if (strcmp(words[i].word, word) == 0)
            return words[i].active;
    return SHOW_INACTIVE;
}

static void take_text(char *out, size_t size, const char *v)
{
    snprintf(out, size, "%s", v);
}

static void take(struct show_unit *u, const char *key, const char *v)
{
    if (strcmp(key, "Id") == 0)
        take_text(u->id, sizeof(u->id), v);
    else if (strcmp(key, "LoadState") == 0)
        take_text(u->load, sizeof(u->load), v);
    else if (strcmp(key, "SubState") == 0)
        take_text(u->sub, sizeof(u->sub), v);
    else if (strcmp(key, "Result") == 0)
        take_text(u->result, sizeof(u->result), v);
    else if (strcmp(key, "ActiveState") == 0)
        u->active = active_of(v);
    else if (strcmp(key, "Job") == 0)
        u->has_job = unit_number(v, INT64_MAX) != 0;
    else if (strcmp(key, "MainPID") == 0)
        u->main_pid = (int)unit_number(v, INT_MAX);
    else if (strcmp(key, "ExecMainCode") == 0)
        u->exec_code = (int)unit_number(v, INT_MAX);
    else if (strcmp(key, "ExecMainStatus") == 0)
        u->exec_status = (int)unit_number(v, INT_MAX);
    else if (strcmp(key, "ExecMainStartTimestampMonotonic") == 0)
        u->started_us = unit_number(v, INT64_MAX);
    else if (strcmp(key, "ExecMainExitTimestampMonotonic") == 0)
        u->exited_us = unit_number(v, INT64_MAX);
    else if (strcmp(key, "NRestarts") == 0)
        u->restarts = (int)unit_number(v, INT_MAX);
}

static void take_line(struct show_unit *u, const char *line, size_t n)
{
    char text[512]; // none of our properties is longer
    const char *eq = memchr(line, '=', n);
    if (eq == NULL || n >= sizeof(text))
        return;
    memcpy(text, line, n);
    text[n] = text[eq - line] = '\0';
    take(u, text, text + (eq - line) + 1);
}

bool show_next(const char **at, struct show_unit *out)
{
    *out = (struct show_unit){ .id = "" };
    while (**at != '\0') {
        const char *line = *at;
        size_t n = strcspn(line, "\n");
        *at += n + (line[n] == '\n');
        if (n > 0)
            take_line(out, line, n);
        else if (out->id[0] != '\0')
            break;
    }
    return out->id[0] != '\0';
}
