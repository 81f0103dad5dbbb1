// SPDX-License-Identifier: Apache-2.0
#include "port/container_args.c"

#include "port/container_show.c"
#include "tap.h"

static const struct container_place place = { .boot_id = "b00t",
                                              .dir = "/run/limpet/containers",
                                              .env_file = "/run/limpet/containers/u/env" };

static struct container_command command;

static const char *joined(const char *const *words)
{
    static char text[8192];
    text[0] = '\0';
    for (; words != NULL && *words != NULL; words++)
        snprintf(text + strlen(text), sizeof(text) - strlen(text), "%s|", *words);
    return text;
}

static const char *made(const struct inst_spec *s)
{
    static struct err e;
    e = ERR_INIT;
    container_command_free(&command);
    int rc = container_command_make(&command, s, &place, &e);
    return rc == 0 ? joined(command.words) : e.msg;
}

static struct inst_spec spec(const char *const *argv, const char *const *env)
{
    return (struct inst_spec){ .uid = "u-0-1",
                               .owner = "edgeapps/edge-n/web",
                               .revision = "1-r-container",
                               .index = 3,
                               .exec = { .argv = argv, .env = env },
                               .image = "shop/till:1" };
}

static void least(void)
{
    struct inst_spec s = spec(NULL, NULL);
    is_str(made(&s),
           "--pull=never|--restart=no|--network=host|--no-healthcheck|--name=limpet-web-u-0-1|--stop-timeout=30|"
           "--label=dev.limpet.uid=u-0-1|--label=dev.limpet.owner=edgeapps/edge-n/web|--label=dev.limpet.revision=1-r-container|"
           "--label=dev.limpet.index=3|--label=dev.limpet.boot=b00t|--label=dev.limpet.dir=/run/limpet/containers|shop/till:1|",
           "an image alone");
}

static void entrypoint_and_args(void)
{
    static const char *const argv[] = { "/bin/app", "--flag", "", NULL };
    struct inst_spec s = spec(argv, NULL);
    has_str(made(&s), "|shop/till:1|/bin/app|--flag||", "arguments stand behind the image");
    ok(strstr(joined(command.words), "--entrypoint") == NULL, "whose entrypoint stays");
    s.entrypoint = true;
    has_str(made(&s), "|--entrypoint|/bin/app|shop/till:1|--flag||", "a command takes its place");
    static const char *const bracket[] = { "[\"a\"]", NULL };
    s.exec.argv = bracket;
    has_str(made(&s), "does not take a program", "podman would read a list");
    s.image = "--privileged";
    has_str(made(&s), "no name of an image", "an image that is an option");
}

static void everything(void)
{
    struct inst_spec s = spec(NULL, NULL);
    s.grace_ms = 1500;
    s.exec.user = "www";
    s.exec.group = "33";
    s.exec.workdir = "/srv";
    s.limits = (struct inst_limits){ .memory = 67108864, .cpu_milli = 1050, .pids = 7 };
    s.exec.rlimits[0] = (struct rlimit_spec){ RLIMIT_NOFILE, 10, -1 };
    s.exec.n_rlimits = 1;
    has_str(made(&s),
            "--user=www:33|--workdir|/srv|--ulimit=nofile=10:-1|--memory=67108864b|--memory-swap=67108864b|--cpus=1.050|--pids-limit=7|",
            "account, directory and limits");
    has_str(joined(command.words), "|--stop-timeout=2|", "the grace in whole seconds, not less");
    s.exec.rlimits[0].resource = RLIMIT_AS;
    has_str(made(&s), "no such limit", "a limit that containers do not have");
}

static void no_value_in_argv(void)
{
    static const char *const env[] = {
        "PASSWORD=hunter2\nnext", "HOME=/root/hunter3", "LD_PRELOAD=/hunter4.so", "https_proxy=http://u:hunter5@x", "A=", NULL
    };
    struct inst_spec s = spec(NULL, env);
    const char *words = made(&s);
    ok(strstr(words, "hunter") == NULL, "no value is in argv");
    has_str(words, "|--env|PASSWORD|", "the name is");
    has_str(words, "|--env|A|--env-file|/run/limpet/containers/u/env|", "those that the tool listens to go by a file");
    is_str(joined(command.env), "PASSWORD=hunter2\nnext|A=|", "the tool finds the others in its environment, byte for byte");
    is_str(buf_str(&command.file), "HOME=/root/hunter3\nLD_PRELOAD=/hunter4.so\nhttps_proxy=http://u:hunter5@x\n", "the file");
}

static void refused_variables(void)
{
    static const char *const bad[] = { "A-B=1", "=1", "NAME*=1", "PATH=/a\n/b", "HOME=\"x\"", "HOME= x", "nothing" };
    for (size_t i = 0; i < ARRAY_LEN(bad); i++) {
        const char *env[] = { bad[i], NULL };
        struct inst_spec s = spec(NULL, env);
        struct err e = ERR_INIT;
        container_command_free(&command);
        is_int(container_command_make(&command, &s, &place, &e), E_INVAL, "%s is refused", bad[i]);
    }
}

static void logs(void)
{
    struct arena a;
    struct inst_spec s = spec(NULL, NULL);
    arena_init(&a, 4096);
    s.log_max = 65536;
    s.log_files = 3;
    (void)made(&s);
    is_str(joined(container_log_words(&command, TOOL_PODMAN, &a)), "--log-driver=k8s-file|--log-opt|max-size=196608|", "podman's log");
    is_str(joined(container_log_words(&command, TOOL_DOCKER, &a)), "--log-driver=json-file|--log-opt|max-size=65536|--log-opt|max-file=3|",
           "docker's log");
    arena_reset(&a);
}

// --- what they say

#define ID "b449ad6a807dd222cc7a8e7aebf6a575acdded465add17518e462ad7047cb4a4"
#define OURS "\"uid\":\"u-1\",\"owner\":\"edgeapps/n/a\",\"revision\":\"r\",\"index\":\"2\",\"boot\":\"b\"}\n"

// As podman 4.3 says it.
static const char podman_text[] =
    "time=\"2026-12-01T03:30:55Z\" level=warning msg=\"something else\"\n"
    "{\"id\":\"" ID "\",\"state\":{\"OciVersion\":\"1.0.2-dev\",\"Status\":\"running\",\"Running\":true,\"OOMKilled\":false,\"Pid\":22171,"
    "\"ConmonPid\":22159,\"ExitCode\":0,\"Error\":\"\",\"StartedAt\":\"2026-12-01T03:25:25.616212679Z\","
    "\"FinishedAt\":\"0001-01-01T00:00:00Z\",\"Health\":{\"Status\":\"\",\"FailingStreak\":0,\"Log\":null}},\"signal\":15," OURS
    "{\"id\":\"" ID "\",\"state\":{\"Status\":\"exited\",\"OOMKilled\":true,\"Pid\":0,\"ExitCode\":137,\"Error\":\"\","
    "\"StartedAt\":\"2026-12-01T04:25:25.6+01:00\",\"FinishedAt\":\"2026-12-01T03:25:26.5Z\"},\"signal\":3," OURS;

// As docker's documentation and its sources have it.
static const char docker_text[] =
    "{\"id\":\"" ID "\",\"state\":{\"Status\":\"created\",\"Running\":false,\"Paused\":false,\"Restarting\":false,\"OOMKilled\":false,"
    "\"Dead\":false,\"Pid\":0,\"ExitCode\":127,\"Error\":\"exec: not found\",\"StartedAt\":\"0001-01-01T00:00:00Z\","
    "\"FinishedAt\":\"0001-01-01T00:00:00Z\"},\"signal\":\"\"," OURS "{\"id\":\"" ID
    "\",\"state\":{\"Status\":\"dead\",\"Pid\":77,\"ExitCode\":1},\"signal\":\"SIGQUIT\"," OURS;

static void shapes(void)
{
    struct show_container c;
    const char *at = podman_text;
    ok(show_container_next(&at, &c), "podman: one that runs");
    is_str(c.id, ID, "its id");
    is_str(c.uid, "u-1", "its uid");
    is_str(c.owner, "edgeapps/n/a", "whose it is");
    is_int(c.index, 2, "which");
    is_int(c.status, SHOW_RUNNING, "runs");
    is_int(c.pid, 22171, "as which process");
    is_str(c.signal, "15", "its stop signal");
    ok(c.started_us == INT64_C(1796095525616212) && c.ended_us == 0, "since when");
    ok(show_container_next(&at, &c), "podman: one that ended");
    ok(c.status == SHOW_ENDED && c.code == 137 && c.oom && c.pid == 0, "how");
    ok(c.ended_us - c.started_us == 900000, "and when");
    ok(!show_container_next(&at, &c), "no more");
    at = docker_text;
    ok(show_container_next(&at, &c) && c.status == SHOW_CREATED && c.started_us == 0, "docker: one that could not be started");
    is_str(c.error, "exec: not found", "why");
    is_str(c.signal, "TERM", "the usual signal");
    ok(show_container_next(&at, &c) && c.status == SHOW_ENDED && c.pid == 0, "docker: one that is dead");
    is_str(c.signal, "SIGQUIT", "a signal by name");
}

static void garbage(void)
{
    static const char *const texts[] = { "",
                                         "\n\n",
                                         "{",
                                         "{}",
                                         "[]\n",
                                         "{\"id\":5}\n",
                                         "{\"id\":\"" ID "\"}\n",
                                         "\x01\xff\n{{{{\n",
                                         "{\"id\":\"" ID "\",\"state\":[],\"uid\":{},\"owner\":\"x\"}\n",
                                         "Error: no such container\n",
                                         "{\"id\":\"--all\",\"state\":{\"Status\":\"exited\"}," OURS };
    struct show_container c;
    char id[CONTAINER_ID_MAX];
    for (size_t i = 0; i < ARRAY_LEN(texts); i++) {
        const char *at = texts[i];
        ok(!show_container_next(&at, &c), "garbage %zu is no container", i);
        at = texts[i];
        ok(!show_id_next(&at, id), "and no id");
    }
    const char *at = "{\"id\":\"" ID "\",\"state\":{\"Status\":\"running\",\"Pid\":-4,\"ExitCode\":1e300},\"signal\":\"; rm\"," OURS;
    ok(show_container_next(&at, &c) && c.pid == 0 && c.code == 0, "numbers that are none");
    is_str(c.signal, "TERM", "and a signal that is none");
    at = "WARN[0000] x\n" ID "\n" ID "0123456789\n" ID;
    ok(show_id_next(&at, id) && show_id_next(&at, id), "ids between warnings");
    is_str(id, ID, "whole ones");
    ok(!show_id_next(&at, id), "no more");
}

static void reasons(void)
{
    static const struct {
        const char *output, *why;
    } table[] = {
        { "time=\"x\" level=warning msg=\"y\"\nError: runc: exec: \"/x\": no such file\n", "runc: exec: '/x': no such file" },
        { "docker: Error response from daemon: Conflict. The name is in use.\n\nRun 'docker run --help' for more information\n",
          "Conflict. The name is in use." },
        { "something\nlast word\n", "last word" },
        { "", "" },
    };
    char why[160];
    for (size_t i = 0; i < ARRAY_LEN(table); i++) {
        show_reason(table[i].output, why, sizeof(why));
        is_str(why, table[i].why, "why, of output %zu", i);
    }
    show_reason("Error: 0123456789\n", why, 6);
    is_str(why, "01234", "cut");
    ok(show_no_image("Error: inspecting object: x:1: image not known\n"), "podman has no such image");
    ok(show_no_image("Error response from daemon: No such image: x:1\n"), "docker has none");
    ok(!show_no_image("Cannot connect to the Docker daemon at unix:///var/run/docker.sock.\n"),
       "a daemon that is away says nothing of images");
    is_int(show_tool("podman version 4.3.1\n"), TOOL_PODMAN, "podman");
    is_int(show_tool("Docker version 28.2.2, build e6534b4\n"), TOOL_DOCKER, "docker");
}

static void names(void)
{
    char name[CONTAINER_NAME_MAX];
    port_container_name("edgeapps/ns/web.shop-1", "u", name);
    is_str(name, "limpet-web.shop-1-u", "named after the app");
    port_container_name("a b/\xc3\xa9", "u", name);
    is_str(name, "limpet----u", "with what names may have");
}

int main(void)
{
    least();
    entrypoint_and_args();
    everything();
    no_value_in_argv();
    refused_variables();
    logs();
    shapes();
    garbage();
    reasons();
    names();
    container_command_free(&command);
    return done_testing();
}
