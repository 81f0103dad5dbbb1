// SPDX-License-Identifier: Apache-2.0
#include "port/hosts.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>

#include "base/util.h"

enum { LINES_MAX = 4096 };

static bool parse_addr(const char *text, uint16_t port, struct host_addr *out)
{
    struct sockaddr_in *v4 = (struct sockaddr_in *)&out->sa;
    struct sockaddr_in6 *v6 = (struct sockaddr_in6 *)&out->sa;
    memset(out, 0, sizeof(*out));
    if (inet_pton(AF_INET, text, &v4->sin_addr) == 1) {
        v4->sin_family = AF_INET;
        v4->sin_port = htons(port);
        out->len = sizeof(*v4);
    } else if (inet_pton(AF_INET6, text, &v6->sin6_addr) == 1) {
        v6->sin6_family = AF_INET6;
        v6->sin6_port = htons(port);
        out->len = sizeof(*v6);
    }
    return out->len > 0;
}

// "ADDRESS NAME NAME... # comment"
static bool line_names(char *line, const char *host, const char **addr)
{
    char *save = NULL;
    line[strcspn(line, "#\n")] = '\0';
    *addr = strtok_r(line, " \t\r", &save);
    if (*addr == NULL)
        return false;
    for (const char *name; (name = strtok_r(NULL, " \t\r", &save)) != NULL;)
        if (strcasecmp(name, host) == 0)
            return true;
    return false;
}

static size_t from_file(const char *file, const char *host, uint16_t port, struct host_addr out[HOST_ADDRS_MAX])
{
    char line[1024];
    const char *addr;
    size_t n = 0;
    FILE *f = fopen(file, "re");
    if (f == NULL)
        return 0;
    for (int i = 0; i < LINES_MAX && n < HOST_ADDRS_MAX && fgets(line, sizeof(line), f) != NULL; i++)
        if (line_names(line, host, &addr) && parse_addr(addr, port, &out[n]))
            n++;
    fclose(f);
    return n;
}

size_t host_find(const char *host, uint16_t port, struct host_addr out[HOST_ADDRS_MAX])
{
    if (parse_addr(host, port, &out[0]))
        return 1;
    size_t n = from_file("/etc/hosts", host, port, out);
    if (n == 0 && strcasecmp(host, "localhost") == 0)
        n = parse_addr("127.0.0.1", port, &out[0]);
    return n;
}
