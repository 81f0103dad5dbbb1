// SPDX-License-Identifier: Apache-2.0
#include "kinds/edgenode_inventory.h"

#include <arpa/inet.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/utf8.h"

enum { SMALL_MAX = 64 * 1024, TABLE_MAX = 1024 * 1024 };

static const char *line_after(const char *line)
{
    const char *nl = strchr(line, '\n');
    return nl != NULL ? nl + 1 : line + strlen(line);
}

static bool read_text(struct disk *d, const char *path, size_t max, struct buf *out)
{
    struct err ignored = ERR_INIT;
    return fs_read(d, path, max, 0, out, &ignored) == 0;
}

// What is no UTF-8 (a host name may be anything) could never be reported, so it is left out.
static void keep_text(const char *s, size_t n, char *out, size_t max)
{
    if (utf8_valid(s, n))
        snprintf(out, max, "%.*s", (int)utf8_cut(s, MIN(n, max - 1)), s);
}

// The first line of a file, without white space at its end.
static void read_word(struct disk *d, const char *path, char *out, size_t max)
{
    struct buf text AUTO_BUF = BUF_INIT(SMALL_MAX);
    if (!read_text(d, path, SMALL_MAX, &text))
        return;
    size_t n = strcspn(buf_str(&text), "\n");
    while (n > 0 && strchr(" \t\r", text.data[n - 1]) != NULL)
        n--;
    keep_text(buf_str(&text), n, out, max);
}

bool parse_os_release(const char *text, char out[FACT_MAX])
{
    static const char key[] = "PRETTY_NAME=";
    for (; *text != '\0'; text = line_after(text)) {
        if (strncmp(text, key, sizeof(key) - 1) != 0)
            continue;
        const char *v = text + sizeof(key) - 1;
        bool quoted = *v == '"' || *v == '\'';
        const char stop[] = { quoted ? *v : '\n', '\n', '\0' };
        v += quoted;
        size_t n = strcspn(v, stop);
        keep_text(v, n, out, FACT_MAX);
        return out[0] != '\0';
    }
    return false;
}

int parse_cpu_list(const char *text)
{
    unsigned first, last, total = 0;
    int used;
    while (sscanf(text, "%6u%n", &first, &used) == 1) {
        text += used;
        last = first;
        if (*text == '-' && sscanf(text, "-%6u%n", &last, &used) == 1)
            text += used;
        if (last < first)
            return 0;
        total += last - first + 1;
        if (*text != ',')
            break;
        text++;
    }
    return (*text == '\0' || *text == '\n') && total < 1000000 ? (int)total : 0;
}

int64_t parse_meminfo(const char *text)
{
    int64_t kib;
    for (; *text != '\0'; text = line_after(text))
        if (sscanf(text, "MemTotal: %15" SCNd64 " kB", &kib) == 1)
            return kib > 0 ? kib : 0;
    return 0;
}

// A line of /proc/net/route: addresses are hexadecimal, in the byte order of the machine as it lies in memory.
struct route {
    char ifname[16];
    uint32_t dest, mask; // host byte order
};

static bool parse_route(const char *line, struct route *r)
{
    uint32_t dest, mask;
    if (sscanf(line, "%15s %" SCNx32 " %*s %*s %*s %*s %*s %" SCNx32, r->ifname, &dest, &mask) != 3)
        return false;
    r->dest = ntohl(dest);
    r->mask = ntohl(mask);
    return true;
}

bool parse_default_route(const char *route, char ifname[16])
{
    struct route r;
    for (; *route != '\0'; route = line_after(route))
        if (parse_route(route, &r) && r.dest == 0 && r.mask == 0) {
            memcpy(ifname, r.ifname, sizeof(r.ifname));
            return true;
        }
    return false;
}

bool address_is_on(const char *route, const char *ifname, uint32_t address)
{
    struct route r;
    for (; *route != '\0'; route = line_after(route))
        if (parse_route(route, &r) && r.mask != 0 && (address & r.mask) == r.dest && strcmp(r.ifname, ifname) == 0)
            return true;
    return false;
}

static bool is_lasting_ipv4(uint32_t a)
{
    return a >> 24 != 127 && a >> 16 != 0xa9fe && a != 0;
}

static bool is_known(const uint32_t *all, size_t n, uint32_t a)
{
    for (size_t i = 0; i < n; i++)
        if (all[i] == a)
            return true;
    return false;
}

// "           |-- 192.0.2.1" followed by "              /32 host LOCAL".
size_t parse_fib_trie(const char *text, uint32_t *out, size_t max)
{
    char word[ADDRESS_MAX];
    struct in_addr a;
    uint32_t last = 0;
    size_t n = 0;
    for (; *text != '\0' && n < max; text = line_after(text)) {
        const char *line = text + strspn(text, " |+-");
        size_t len = MIN(strcspn(line, " \n"), sizeof(word) - 1);
        memcpy(word, line, len);
        word[len] = '\0';
        if (inet_pton(AF_INET, word, &a) == 1)
            last = ntohl(a.s_addr);
        else if (strncmp(line, "/32 host LOCAL", 14) == 0 && is_lasting_ipv4(last) && !is_known(out, n, last))
            out[n++] = last;
    }
    return n;
}

static bool parse_hex16(const char *hex, unsigned char out[16])
{
    for (int i = 0; i < 16; i++)
        if (sscanf(hex + 2 * i, "%2hhx", &out[i]) != 1)
            return false;
    return true;
}

// "20010db8...(32 hex) index prefixlen scope flags name". Temporary, deprecated and tentative addresses come and go.
void parse_if_inet6(const char *text, char out[][ADDRESS_MAX], size_t max, size_t *n)
{
    enum { TEMPORARY = 0x01, DEPRECATED = 0x20, TENTATIVE = 0x40 };
    char hex[33];
    unsigned scope, flags;
    unsigned char raw[16];
    for (; *text != '\0' && *n < max; text = line_after(text)) {
        if (sscanf(text, "%32[0-9a-fA-F] %*x %*x %x %x", hex, &scope, &flags) != 3 || strlen(hex) != 32)
            continue;
        if (scope != 0 || (flags & (TEMPORARY | DEPRECATED | TENTATIVE)) != 0 || !parse_hex16(hex, raw))
            continue;
        if (inet_ntop(AF_INET6, raw, out[*n], ADDRESS_MAX) != NULL)
            ++*n;
    }
}

static void add_ipv4(struct inventory *out, uint32_t address)
{
    struct in_addr a = { htonl(address) };
    if (out->n_addresses < ADDRESSES_MAX && inet_ntop(AF_INET, &a, out->addresses[out->n_addresses], ADDRESS_MAX) != NULL)
        out->n_addresses++;
}

static int by_value(const void *a, const void *b)
{
    const uint32_t *x = a, *y = b;
    return (*x > *y) - (*x < *y);
}

// Sorted, so that the order says nothing but which has the default route.
static void read_addresses(struct inventory *out, struct disk *d)
{
    uint32_t all[ADDRESSES_MAX];
    char ifname[16] = "";
    struct buf trie AUTO_BUF = BUF_INIT(TABLE_MAX), route AUTO_BUF = BUF_INIT(TABLE_MAX), inet6 AUTO_BUF = BUF_INIT(TABLE_MAX);
    size_t n = read_text(d, "/proc/net/fib_trie", TABLE_MAX, &trie) ? parse_fib_trie(buf_str(&trie), all, ARRAY_LEN(all)) : 0;
    bool routed = read_text(d, "/proc/net/route", TABLE_MAX, &route) && parse_default_route(buf_str(&route), ifname);
    qsort(all, n, sizeof(all[0]), by_value);
    for (int pass = 0; pass < 2; pass++)
        for (size_t i = 0; i < n; i++)
            if ((routed && address_is_on(buf_str(&route), ifname, all[i])) == (pass == 0))
                add_ipv4(out, all[i]);
    if (read_text(d, "/proc/net/if_inet6", TABLE_MAX, &inet6))
        parse_if_inet6(buf_str(&inet6), out->addresses, ADDRESSES_MAX, &out->n_addresses);
}

// Kernels before 6.1 do not tell in a file; then it is what this program was built for.
static const char *built_for(void)
{
#if defined(__x86_64__)
    return "x86_64";
#elif defined(__aarch64__)
    return "aarch64";
#elif defined(__arm__)
    return "arm";
#elif defined(__mips__)
    return "mips";
#elif defined(__riscv)
    return __riscv_xlen == 64 ? "riscv64" : "riscv32";
#elif defined(__i386__)
    return "i686";
#else
    return "";
#endif
}

void inventory_read(struct inventory *out, struct disk *d)
{
    struct buf text AUTO_BUF = BUF_INIT(SMALL_MAX);
    *out = (struct inventory){ 0 };
    read_word(d, "/etc/machine-id", out->machine_id, sizeof(out->machine_id));
    read_word(d, "/proc/sys/kernel/osrelease", out->kernel, sizeof(out->kernel));
    read_word(d, "/proc/sys/kernel/hostname", out->hostname, sizeof(out->hostname));
    read_word(d, "/proc/sys/kernel/arch", out->arch, sizeof(out->arch));
    if (out->arch[0] == '\0')
        snprintf(out->arch, sizeof(out->arch), "%s", built_for());
    if (read_text(d, "/etc/os-release", SMALL_MAX, &text) || read_text(d, "/usr/lib/os-release", SMALL_MAX, &text))
        (void)parse_os_release(buf_str(&text), out->os_image);
    if (read_text(d, "/sys/devices/system/cpu/online", SMALL_MAX, &text))
        out->cpus = parse_cpu_list(buf_str(&text));
    if (read_text(d, "/proc/meminfo", SMALL_MAX, &text))
        out->memory_kib = parse_meminfo(buf_str(&text));
    read_addresses(out, d);
}
