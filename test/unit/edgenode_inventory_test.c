// SPDX-License-Identifier: Apache-2.0
#include "kinds/edgenode_inventory.c"

#include "tap.h"

static void test_os_release(void)
{
    static const char *const cases[][2] = {
        { "NAME=x\nPRETTY_NAME=\"Debian GNU/Linux 12 (bookworm)\"\n", "Debian GNU/Linux 12 (bookworm)" },
        { "PRETTY_NAME='OpenWrt 24.10'\n", "OpenWrt 24.10" },
        { "PRETTY_NAME=Alpine\nX=1\n", "Alpine" },
        { "PRETTY_NAME=\"no end\nX=1", "no end" },
        { "MY_PRETTY_NAME=no\n", "" },
        { "PRETTY_NAME=", "" },
        { "PRETTY_NAME=\"no \xff text\"", "" },
        { "PRETTY_NAME=\"\xc3\xbc\"", "\xc3\xbc" },
        { "", "" },
    };
    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        char out[FACT_MAX] = "";
        ok(parse_os_release(cases[i][0], out) == (cases[i][1][0] != '\0'), "os-release %zu", i);
        is_str(out, cases[i][1], "  PRETTY_NAME");
    }
}

static void test_cpus(void)
{
    is_int(parse_cpu_list("0\n"), 1, "one processor");
    is_int(parse_cpu_list("0-3\n"), 4, "a range");
    is_int(parse_cpu_list("0-3,5,8-9\n"), 7, "ranges");
    is_int(parse_cpu_list(""), 0, "nothing");
    is_int(parse_cpu_list("3-1"), 0, "backwards");
    is_int(parse_cpu_list("0-3;x"), 0, "rubbish");
    is_int(parse_cpu_list("99999999999999999999"), 0, "a number too long");
}

static void test_memory(void)
{
    is_int(parse_meminfo("MemTotal:        3921772 kB\nMemFree: 1 kB\n"), 3921772, "memory");
    is_int(parse_meminfo("MemFree: 1 kB\nMemTotal: 7 kB"), 7, "in whatever line");
    is_int(parse_meminfo("MemTotal: much"), 0, "unreadable");
}

static const char trie[] = "Main:\n  +-- 0.0.0.0/0 3 0 5\n     |-- 0.0.0.0\n        /0 universe UNICAST\n"
                           "     +-- 127.0.0.0/8 2 0 2\n           |-- 127.0.0.1\n              /32 host LOCAL\n"
                           "        |-- 172.17.0.1\n           /32 host LOCAL\n"
                           "        |-- 192.0.2.7\n           /32 host LOCAL\n"
                           "        |-- 192.0.2.255\n           /32 link BROADCAST\n"
                           "Local:\n        |-- 192.0.2.7\n           /32 host LOCAL\n        |-- 169.254.1.1\n           /32 host LOCAL\n";
static const char route[] = "Iface\tDestination\tGateway \tFlags\tRefCnt\tUse\tMetric\tMask\t\tMTU\tWindow\tIRTT\n"
                            "docker0\t000011AC\t00000000\t0001\t0\t0\t0\t0000FFFF\t0\t0\t0\n"
                            "eth0\t00000000\t010200C0\t0003\t0\t0\t0\t00000000\t0\t0\t0\n"
                            "eth0\t000200C0\t00000000\t0001\t0\t0\t0\t00FFFFFF\t0\t0\t0\n";
static const char inet6[] = "00000000000000000000000000000001 01 80 10 80       lo\n"
                            "fe800000000000000000000000000001 02 40 20 80     eth0\n"
                            "20010db8000000000000000000000007 02 40 00 80     eth0\n"
                            "20010db8000000000000000000000bad 02 40 00 01     eth0\n";

static void test_addresses(void)
{
    uint32_t a[8];
    char ifname[16], out[4][ADDRESS_MAX];
    size_t n = parse_fib_trie(trie, a, ARRAY_LEN(a));
    is_int((intmax_t)n, 2, "two local addresses: no loopback, no link-local one, each once");
    is_int(a[1], 0xC0000207, "192.0.2.7");
    is_int((intmax_t)parse_fib_trie(trie, a, 1), 1, "no more than asked for");
    ok(parse_default_route(route, ifname), "there is a default route");
    is_str(ifname, "eth0", "on eth0");
    ok(address_is_on(route, "eth0", 0xC0000207), "192.0.2.7 is there");
    ok(!address_is_on(route, "eth0", 0xAC110001), "172.17.0.1 is not");
    ok(!parse_default_route("Iface\n", ifname), "none in nothing");
    n = 0;
    parse_if_inet6(inet6, out, 4, &n);
    is_int((intmax_t)n, 1, "one lasting global IPv6 address");
    is_str(out[0], "2001:db8::7", "this one");
    parse_if_inet6("zz\n\n20010db8\n", out, 4, &n);
    is_int((intmax_t)n, 1, "rubbish adds none");
}

int main(void)
{
    test_os_release();
    test_cpus();
    test_memory();
    test_addresses();
    return done_testing();
}
