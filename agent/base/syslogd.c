// SPDX-License-Identifier: Apache-2.0
#include "base/syslogd.h"

#include <errno.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "base/util.h"

bool syslogd_init(struct syslogd *s, const char *path)
{
    syslogd_fini(s);
    size_t n = strlen(path);
    if (n >= sizeof(s->path))
        return false;
    memcpy(s->path, path, n + 1);
    return true;
}

void syslogd_fini(struct syslogd *s)
{
    if (s->connected)
        close(s->fd);
    s->connected = false;
}

static bool connect_to(struct syslogd *s)
{
    struct sockaddr_un a = { .sun_family = AF_UNIX };
    memcpy(a.sun_path, s->path, sizeof(s->path));
    s->fd = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (s->fd < 0)
        return false;
    s->connected = true;
    if (connect(s->fd, (const struct sockaddr *)&a, sizeof(a)) == 0)
        return true;
    syslogd_fini(s);
    return false;
}

bool syslogd_send(struct syslogd *s, const char *line, size_t n)
{
    if (!s->connected && !connect_to(s))
        return false;
    ssize_t r = send(s->fd, line, n, MSG_DONTWAIT | MSG_NOSIGNAL);
    if (r < 0 && (errno == ECONNREFUSED || errno == ECONNRESET || errno == ENOTCONN)) { // another daemon has taken its place
        syslogd_fini(s);
        r = connect_to(s) ? send(s->fd, line, n, MSG_DONTWAIT | MSG_NOSIGNAL) : -1;
    }
    return r == (ssize_t)n;
}
