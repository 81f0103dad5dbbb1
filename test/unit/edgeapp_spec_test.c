// SPDX-License-Identifier: Apache-2.0
#include "kinds/edgeapp_spec.c"

#include "spec_rig.h"

// The same verdicts as the CRD's schema: test/e2e/crd holds the server to its list, this one holds the agent.
static const struct verdict verdicts[] = {
    { "{\"command\":[\"true\"]}", NULL, 0 },
    { "{}", "spec.command: is required", 0 },
    { "null", "spec: is required", 0 },
    { "[]", "spec: must be an object", 0 },
    { "{\"command\":null}", "spec.command: is required", 0 },
    { "{\"command\":[]}", "spec.command: must have 1..64 items, has 0", 0 },
    { "{\"command\":\"true\"}", "spec.command: must be a list", 0 },
    { "{\"command\":[\"\",\"x\"]}", "spec.command[0]: names the program", 0 },
    { "{\"command\":[\"x\",7]}", "spec.command[1]: must be a string", 0 },
    { "{\"command\":[\"x\",\"@\"]}", NULL, 32767 },
    { "{\"command\":[\"x\",\"@\"]}", "spec.command[1]: must have at most 32767 characters, has 32768", 32768 },
    { "{\"command\":[\"x\"],\"args\":[\"@\"]}", "spec.args[0]: must have at most", 32768 },
    { "{\"command\":[\"x\"],\"args\":[\"\",\"$(MODE)$$(X)\"]}", NULL, 0 },
    { "{\"command\":[\"x\"],\"unknown\":{\"a\":1}}", NULL, 0 },

    { "{\"command\":[\"x\"],\"nodeName\":\"edge-1\"}", NULL, 0 },
    { "{\"command\":[\"x\"],\"nodeName\":\"edge-2\"}", "spec.nodeName: is \"edge-2\", but this node is \"edge-1\"", 0 },
    { "{\"command\":[\"x\"],\"nodeName\":\"\"}", "spec.nodeName: must not be empty", 0 },

    { "{\"command\":[\"x\"],\"env\":[]}", NULL, 0 },
    { "{\"command\":[\"x\"],\"env\":[{\"name\":\"A\"}]}", NULL, 0 },
    { "{\"command\":[\"x\"],\"env\":[{\"name\":\"A\",\"value\":\"two\\nlines\"}]}", NULL, 0 },
    { "{\"command\":[\"x\"],\"env\":[{\"value\":\"1\"}]}", "spec.env[0].name: is required", 0 },
    { "{\"command\":[\"x\"],\"env\":[{\"name\":\"\"}]}", "spec.env[0].name: must not be empty", 0 },
    { "{\"command\":[\"x\"],\"env\":[{\"name\":\"1A\"}]}", "spec.env[0].name: must be letters", 0 },
    { "{\"command\":[\"x\"],\"env\":[{\"name\":\"A=B\"}]}", "spec.env[0].name: must be letters", 0 },
    { "{\"command\":[\"x\"],\"env\":[{\"name\":\"A\"},{\"name\":\"A\"}]}", "spec.env[1].name: \"A\" is there twice", 0 },
    { "{\"command\":[\"x\"],\"env\":[{\"name\":\"A\",\"value\":7}]}", "spec.env[0].value: must be a string", 0 },
    { "{\"command\":[\"x\"],\"env\":[{\"name\":\"A\",\"value\":\"@\"}]}", NULL, 32000 },
    { "{\"command\":[\"x\"],\"env\":[{\"name\":\"A\",\"value\":\"@\"}]}", "spec.env[0].value: must have at most 32000", 32001 },
    { "{\"command\":[\"x\"],\"env\":[{\"name\":\"@\"}]}", "spec.env[0].name: must have at most 256", 257 },

    { "{\"command\":[\"x\"],\"user\":\"0\"}", NULL, 0 },
    { "{\"command\":[\"x\"],\"user\":\"4294967294\"}", NULL, 0 },
    { "{\"command\":[\"x\"],\"user\":\"4294967295\"}", "spec.user: must be the name or number of an account", 0 },
    { "{\"command\":[\"x\"],\"user\":\"12345678901\"}", "spec.user: must be", 0 },
    { "{\"command\":[\"x\"],\"user\":\"_apt\"}", NULL, 0 },
    { "{\"command\":[\"x\"],\"user\":\"Machine.Name-1$\"}", NULL, 0 },
    { "{\"command\":[\"x\"],\"user\":\"a$b\"}", "spec.user: must be", 0 },
    { "{\"command\":[\"x\"],\"user\":\"-root\"}", "spec.user: must be", 0 },
    { "{\"command\":[\"x\"],\"user\":\"\"}", "spec.user: must not be empty", 0 },
    { "{\"command\":[\"x\"],\"group\":\"@\"}", "spec.group: must have at most 32", 33 },
    { "{\"command\":[\"x\"],\"user\":1000}", "spec.user: must be a string", 0 },

    { "{\"command\":[\"x\"],\"workingDir\":\"/\"}", NULL, 0 },
    { "{\"command\":[\"x\"],\"workingDir\":\"srv\"}", "spec.workingDir: must be an absolute path", 0 },
    { "{\"command\":[\"x\"],\"workingDir\":\"/@\"}", "spec.workingDir: must have at most 4000", 4000 },
    { "{\"command\":[\"x\"],\"runtime\":\"exec\"}", NULL, 0 },
    { "{\"command\":[\"x\"],\"runtime\":\"container\"}", "spec.image: is required for runtime container", 0 },
    { "{\"command\":[\"x\"],\"runtime\":\"docker\"}", "spec.runtime: must be one of exec, systemd, container, is \"docker\"", 0 },
    { "{\"image\":\"busybox\"}", NULL, 0 },
    { "{\"image\":\"r.example:5000/a/b@sha256:0\",\"args\":[\"x\"],\"runtime\":\"container\"}", NULL, 0 },
    { "{\"image\":\"\"}", "spec.image: must not be empty", 0 },
    { "{\"image\":\"--privileged\"}", "spec.image: must be registry/name:tag", 0 },
    { "{\"image\":\"a b\"}", "spec.image: must be registry/name:tag", 0 },
    { "{\"image\":\"@\"}", "spec.image: must have at most 512", 513 },
    { "{\"image\":\"x\",\"runtime\":\"systemd\"}", "spec.runtime: must be container where there is an image", 0 },
    { "{\"image\":\"x\",\"imagePullPolicy\":\"Sometimes\"}", "spec.imagePullPolicy: must be one of Always, IfNotPresent, Never", 0 },
    { "{\"command\":[\"x\"],\"imagePullPolicy\":\"Never\"}", "spec.imagePullPolicy: is about an image, and there is none", 0 },
    { "{\"image\":\"x\",\"group\":\"0\"}", "spec.group: needs a user where there is an image", 0 },
    { "{\"image\":\"x\",\"rlimits\":[{\"name\":\"as\",\"soft\":1,\"hard\":1}]}", "spec.rlimits: containers have no limit", 0 },
    { "{\"command\":[\"x\"],\"runtime\":\"systemd\"}", NULL, 0 },
    { "{\"command\":[\"x\"],\"resources\":{\"limits\":{\"cpu\":2,\"memory\":1048576,\"pids\":7}}}", NULL, 0 },
    { "{\"command\":[\"x\"],\"resources\":{}}", NULL, 0 },
    { "{\"command\":[\"x\"],\"resources\":{\"limits\":{\"cpu\":\"lots\"}}}", "spec.resources.limits.cpu: ", 0 },
    { "{\"command\":[\"x\"],\"resources\":{\"limits\":{\"cpu\":\"0\"}}}", "spec.resources.limits.cpu: ", 0 },
    { "{\"command\":[\"x\"],\"resources\":{\"limits\":{\"memory\":true}}}", "spec.resources.limits.memory: ", 0 },
    { "{\"command\":[\"x\"],\"resources\":{\"limits\":{\"memory\":-1}}}", "spec.resources.limits.memory: ", 0 },
    { "{\"command\":[\"x\"],\"resources\":{\"limits\":{\"pids\":0}}}", "spec.resources.limits.pids: must be 1..", 0 },
    { "{\"command\":[\"x\"],\"replicas\":0}", NULL, 0 },
    { "{\"command\":[\"x\"],\"replicas\":32}", NULL, 0 },
    { "{\"command\":[\"x\"],\"replicas\":3.0}", NULL, 0 },
    { "{\"command\":[\"x\"],\"replicas\":99}", "spec.replicas: must be 0..32, is 99", 0 },
    { "{\"command\":[\"x\"],\"replicas\":-1}", "spec.replicas: must be 0..32, is -1", 0 },
    { "{\"command\":[\"x\"],\"replicas\":1.5}", "spec.replicas: must be an integer", 0 },
    { "{\"command\":[\"x\"],\"replicas\":\"3\"}", "spec.replicas: must be an integer", 0 },
    { "{\"command\":[\"x\"],\"replicas\":1e300}", "spec.replicas: must be an integer", 0 },
    { "{\"command\":[\"x\"],\"restartPolicy\":\"Sometimes\"}", "spec.restartPolicy: must be one of Always, OnFailure, Never", 0 },
    { "{\"command\":[\"x\"],\"terminationGracePeriodSeconds\":3601}", "spec.terminationGracePeriodSeconds: must be 0..3600", 0 },

    { "{\"command\":[\"x\"],\"readinessProbe\":{}}", "spec.readinessProbe: give exactly one", 0 },
    { "{\"command\":[\"x\"],\"readinessProbe\":{\"tcpSocket\":{\"port\":80},\"httpGet\":{\"port\":80}}}",
      "spec.readinessProbe: give exactly one", 0 },
    { "{\"command\":[\"x\"],\"readinessProbe\":{\"exec\":{\"command\":[\"true\"]}}}", NULL, 0 },
    { "{\"command\":[\"x\"],\"livenessProbe\":{\"tcpSocket\":{\"port\":80},\"successThreshold\":2}}", "spec.livenessProbe.successThreshold",
      0 },
    { "{\"command\":[\"x\"],\"startupProbe\":{\"tcpSocket\":{\"port\":80},\"successThreshold\":2}}", "spec.startupProbe.successThreshold",
      0 },
    { "{\"command\":[\"x\"],\"startupProbe\":{\"tcpSocket\":{\"port\":80},\"failureThreshold\":1000}}", NULL, 0 },
    { "{\"command\":[\"x\"],\"livenessProbe\":{\"tcpSocket\":{\"port\":80},\"failureThreshold\":101}}",
      "livenessProbe.failureThreshold: must be 1..100", 0 },
    { "{\"command\":[\"x\"],\"startupProbe\":{}}", "spec.startupProbe: give exactly one", 0 },
    { "{\"command\":[\"x\"],\"livenessProbe\":{\"httpGet\":{}}}", "spec.livenessProbe.httpGet.port: is required", 0 },
    { "{\"command\":[\"x\"],\"suspend\":\"yes\"}", "spec.suspend: must be", 0 },
    { "{\"command\":[\"x\"],\"update\":{\"maxUnavailable\":0}}", "spec.update.maxUnavailable: must be 1..32", 0 },
    { "{\"command\":[\"x\"],\"update\":3}", "spec.update: must be an object", 0 },
    { "{\"command\":[\"x\"],\"readinessProbe\":{\"exec\":{}}}", "spec.readinessProbe.exec.command: is required", 0 },
    { "{\"command\":[\"x\"],\"readinessProbe\":{\"httpGet\":{}}}", "spec.readinessProbe.httpGet.port: is required", 0 },
    { "{\"command\":[\"x\"],\"readinessProbe\":{\"httpGet\":{\"port\":0}}}", "spec.readinessProbe.httpGet.port: must be 1..65535", 0 },
    { "{\"command\":[\"x\"],\"readinessProbe\":{\"httpGet\":{\"port\":65536}}}", "spec.readinessProbe.httpGet.port: must be 1..65535", 0 },
    { "{\"command\":[\"x\"],\"readinessProbe\":{\"httpGet\":{\"port\":80,\"path\":\"/x HTTP/1.0\\r\\n\"}}}",
      "httpGet.path: must be a path in printable", 0 },
    { "{\"command\":[\"x\"],\"readinessProbe\":{\"httpGet\":{\"port\":80,\"path\":\"x\"}}}", "httpGet.path: must be a path", 0 },
    { "{\"command\":[\"x\"],\"readinessProbe\":{\"httpGet\":{\"port\":80,\"scheme\":\"HTTPS\"}}}", "httpGet.scheme: must be one of HTTP",
      0 },
    { "{\"command\":[\"x\"],\"readinessProbe\":{\"httpGet\":{\"port\":80,\"host\":\"example.org\"}}}",
      "httpGet.host: must be an IP address", 0 },
    { "{\"command\":[\"x\"],\"readinessProbe\":{\"httpGet\":{\"port\":80,\"host\":\"fe80::1\"}}}", NULL, 0 },
    { "{\"command\":[\"x\"],\"readinessProbe\":{\"httpGet\":{\"port\":80,\"host\":\"::1\"}}}", NULL, 0 },
    { "{\"command\":[\"x\"],\"readinessProbe\":{\"tcpSocket\":{\"port\":80,\"host\":\"10.0.0.1\"}}}", NULL, 0 },
    { "{\"command\":[\"x\"],\"readinessProbe\":{\"tcpSocket\":{\"port\":80,\"host\":\"10.0.0\"}}}", "tcpSocket.host: must be", 0 },
    { "{\"command\":[\"x\"],\"readinessProbe\":{\"tcpSocket\":{\"port\":80,\"host\":\"10.0.0.1.2\"}}}", "tcpSocket.host: must be", 0 },
    { "{\"command\":[\"x\"],\"readinessProbe\":{\"tcpSocket\":{\"port\":80,\"host\":\"localhost\"}}}", NULL, 0 },
    { "{\"command\":[\"x\"],\"readinessProbe\":{\"tcpSocket\":{\"port\":80},\"periodSeconds\":0}}",
      "spec.readinessProbe.periodSeconds: must be 1..3600", 0 },
    { "{\"command\":[\"x\"],\"readinessProbe\":{\"tcpSocket\":{\"port\":80},\"timeoutSeconds\":301}}", "timeoutSeconds: must be 1..300",
      0 },
    { "{\"command\":[\"x\"],\"readinessProbe\":{\"tcpSocket\":{\"port\":80},\"failureThreshold\":0}}", "failureThreshold: must be 1..100",
      0 },

    { "{\"command\":[\"x\"],\"rlimits\":[{\"name\":\"nofile\",\"soft\":1024,\"hard\":4096}]}", NULL, 0 },
    { "{\"command\":[\"x\"],\"rlimits\":[{\"name\":\"core\",\"soft\":0,\"hard\":-1}]}", NULL, 0 },
    { "{\"command\":[\"x\"],\"rlimits\":[{\"name\":\"NOFILE\",\"soft\":1,\"hard\":1}]}", "spec.rlimits[0].name: must be one of as, core",
      0 },
    { "{\"command\":[\"x\"],\"rlimits\":[{\"name\":\"nofile\",\"hard\":1}]}", "spec.rlimits[0].soft: is required", 0 },
    { "{\"command\":[\"x\"],\"rlimits\":[{\"name\":\"nofile\",\"soft\":2,\"hard\":1}]}", "spec.rlimits[0]: soft must not be above hard",
      0 },
    { "{\"command\":[\"x\"],\"rlimits\":[{\"name\":\"nofile\",\"soft\":-1,\"hard\":1}]}", "spec.rlimits[0]: soft must not be above hard",
      0 },
    { "{\"command\":[\"x\"],\"rlimits\":[{\"name\":\"nofile\",\"soft\":-2,\"hard\":1}]}",
      "spec.rlimits[0].soft: must be at least -1, is -2", 0 },
    { "{\"command\":[\"x\"],\"rlimits\":[{\"name\":\"cpu\",\"soft\":1,\"hard\":1},{\"name\":\"cpu\",\"soft\":1,\"hard\":1}]}",
      "spec.rlimits[1]: this name is there twice", 0 },

    { "{\"command\":[\"x\"],\"logs\":{\"maxSize\":\"4Ki\"}}", NULL, 0 },
    { "{\"command\":[\"x\"],\"logs\":{\"maxSize\":\"1Gi\"}}", NULL, 0 },
    { "{\"command\":[\"x\"],\"logs\":{\"maxSize\":\"10M\"}}", NULL, 0 },
    { "{\"command\":[\"x\"],\"logs\":{\"maxSize\":\"4095\"}}", "spec.logs.maxSize: must be 4096..1073741824 bytes, is 4095", 0 },
    { "{\"command\":[\"x\"],\"logs\":{\"maxSize\":\"1025Mi\"}}", "spec.logs.maxSize: must be 4096..1073741824", 0 },
    { "{\"command\":[\"x\"],\"logs\":{\"maxSize\":\"999999999Gi\"}}", "spec.logs.maxSize: must be 4096..1073741824", 0 },
    { "{\"command\":[\"x\"],\"logs\":{\"maxSize\":\"1.5Mi\"}}", "spec.logs.maxSize: must be a number of bytes", 0 },
    { "{\"command\":[\"x\"],\"logs\":{\"maxSize\":\"01Mi\"}}", "spec.logs.maxSize: must be a number of bytes", 0 },
    { "{\"command\":[\"x\"],\"logs\":{\"maxSize\":\"-1Mi\"}}", "spec.logs.maxSize: must be a number of bytes", 0 },
    { "{\"command\":[\"x\"],\"logs\":{\"maxSize\":65536}}", "spec.logs.maxSize: must be a string", 0 },
    { "{\"command\":[\"x\"],\"logs\":{\"maxFiles\":11}}", "spec.logs.maxFiles: must be 1..10", 0 },
};

static struct arena arena;
static struct json *kept[160]; // the decoded spec borrows from it
static size_t n_kept;

static struct app_spec decoded(const char *text)
{
    struct app_spec s = { 0 };
    struct json *j = NULL;
    struct err e = ERR_INIT;
    if (json_parse(&j, text, strlen(text), &e) < 0 || app_spec_decode(&s, j, "edge-1", &arena, &e) < 0)
        fail("%s: %s", text, e.msg);
    if (n_kept < ARRAY_LEN(kept))
        kept[n_kept++] = j;
    return s;
}

static int decode(const struct json *spec, struct err *e)
{
    struct app_spec s;
    return app_spec_decode(&s, spec, "edge-1", &arena, e);
}

static void test_defaults(void)
{
    struct app_spec s = decoded("{\"command\":[\"true\"],\"readinessProbe\":{\"httpGet\":{\"port\":80}}}");
    is_int(s.replicas, 1, "replicas is 1 by default");
    is_int(s.restart, APP_ALWAYS, "restartPolicy is Always");
    is_int(s.process.grace_ms, 30000, "the grace is 30 s");
    is_str(s.process.workdir, "/", "workingDir is /");
    is_int(s.process.log_max, 1 << 20, "a log file has 1 Mi");
    is_int(s.process.log_files, 2, "two log files");
    is_int(s.process.n_rlimits, 0, "no limits");
    ok(s.process.user == NULL && s.process.group == NULL, "as the agent");
    is_int(s.probes[APP_READINESS].period_ms, 10000, "probed every 10 s");
    is_int(s.probes[APP_READINESS].timeout_ms, 1000, "for 1 s");
    is_int(s.probes[APP_READINESS].successes, 1, "one success");
    is_int(s.probes[APP_READINESS].failures, 3, "three failures");
    is_str(s.probes[APP_READINESS].path, "/", "path /");
    is_str(s.probes[APP_READINESS].host, "127.0.0.1", "on this machine");
}

#define BASE "\"command\":[\"/bin/app\",\"-v\"],\"env\":[{\"name\":\"A\",\"value\":\"1\"},{\"name\":\"B\",\"value\":\"2\"}]"

static void test_revision(void)
{
    // What these names stand for must never change by accident: every app on every node would restart with the upgrade.
    is_str(decoded("{\"command\":[\"true\"]}").process.revision, "1-26cdf92ab2dd", "golden: the least spec");
    is_str(decoded("{\"command\":[\"/bin/app\",\"$(MODE)\"],\"args\":[\"--verbose\"],\"env\":[{\"name\":\"MODE\",\"value\":\"a b\"}],"
                   "\"user\":\"daemon\",\"group\":\"1000\",\"workingDir\":\"/srv\","
                   "\"rlimits\":[{\"name\":\"nofile\",\"soft\":1024,\"hard\":4096}]}")
               .process.revision,
           "1-0f41bd00db73", "golden: every field that counts");
    static const struct {
        const char *spec;
        bool same;
        const char *what;
    } cases[] = {
        { "{" BASE ",\"replicas\":5}", true, "replicas" },
        { "{" BASE ",\"restartPolicy\":\"Never\"}", true, "restartPolicy" },
        { "{" BASE ",\"terminationGracePeriodSeconds\":1}", true, "grace" },
        { "{" BASE ",\"readinessProbe\":{\"tcpSocket\":{\"port\":1}}}", true, "a probe" },
        { "{" BASE ",\"logs\":{\"maxFiles\":3}}", true, "logs" },
        { "{" BASE ",\"nodeName\":\"edge-1\"}", true, "nodeName" },
        { "{" BASE ",\"runtime\":\"exec\",\"workingDir\":\"/\",\"args\":[],\"rlimits\":[]}", true, "defaults written down" },
        { "{\"env\":[{\"value\":\"1\",\"name\":\"A\"},{\"name\":\"B\",\"value\":\"2\"}],\"command\":[\"/bin/app\",\"-v\"]}", true,
          "order of members" },
        { "{" BASE ",\"someFieldOfTheFuture\":1}", true, "an unknown field" },
        { "{\"command\":[\"/bin/app\"],\"args\":[\"-v\"],\"env\":[{\"name\":\"A\",\"value\":\"1\"},{\"name\":\"B\",\"value\":\"2\"}]}",
          true, "a word moved from command to args: the same argv" },
        { "{\"command\":[\"/bin/app\",\"-v\"],\"env\":[{\"name\":\"B\",\"value\":\"2\"},{\"name\":\"A\",\"value\":\"1\"}]}", false,
          "order of variables" },
        { "{" BASE ",\"args\":[\"\"]}", false, "an empty argument" },
        { "{" BASE ",\"user\":\"root\"}", false, "user" },
        { "{" BASE ",\"group\":\"root\"}", false, "group" },
        { "{" BASE ",\"workingDir\":\"/srv\"}", false, "workingDir" },
        { "{" BASE ",\"rlimits\":[{\"name\":\"nofile\",\"soft\":1,\"hard\":1}]}", false, "a limit" },
        { "{\"command\":[\"/bin/app-v\"],\"env\":[{\"name\":\"A\",\"value\":\"1\"},{\"name\":\"B\",\"value\":\"2\"}]}", false,
          "words joined" },
        { "{\"command\":[\"/bin/app\",\"-v\"],\"env\":[{\"name\":\"A\",\"value\":\"1\"},{\"name\":\"B\",\"value\":\"\"}]}", false,
          "a value" },
    };
    struct app_spec base = decoded("{" BASE "}");
    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        struct app_spec s = decoded(cases[i].spec);
        ok((strcmp(s.process.revision, base.process.revision) == 0) == cases[i].same, "revision: %s %s", cases[i].what,
           cases[i].same ? "does not count" : "counts");
    }
    struct app_spec two =
        decoded("{" BASE ",\"rlimits\":[{\"name\":\"cpu\",\"soft\":1,\"hard\":1},{\"name\":\"core\",\"soft\":1,\"hard\":1}]}");
    struct app_spec swapped =
        decoded("{" BASE ",\"rlimits\":[{\"name\":\"core\",\"soft\":1,\"hard\":1},{\"name\":\"cpu\",\"soft\":1,\"hard\":1}]}");
    is_str(two.process.revision, swapped.process.revision, "revision: the order of limits does not count");
}

static void test_runtime(void)
{
    struct app_spec none = decoded("{" BASE "}"), own = decoded("{" BASE ",\"runtime\":\"systemd\"}"), other = decoded("{" BASE "}"),
                    pinned = decoded("{" BASE ",\"runtime\":\"exec\"}");
    const char *revision = decoded("{" BASE "}").process.revision;
    char systemd[INST_REV_MAX];
    snprintf(systemd, sizeof(systemd), "%.14s-systemd", revision);
    app_spec_runtime(&none, "fake");
    is_str(none.runtime, "exec", "without a word it is exec");
    is_str(none.process.revision, revision, "and the revision as ever");
    app_spec_runtime(&other, "systemd");
    is_str(other.runtime, "systemd", "unless the node's default is another");
    is_str(other.process.revision, systemd, "that is another revision");
    app_spec_runtime(&own, "exec");
    is_str(own.runtime, "systemd", "what the app says counts");
    is_str(own.process.revision, systemd, "wherever it was said");
    app_spec_runtime(&pinned, "systemd");
    is_str(pinned.process.revision, revision, "exec by name on such a node");
}

static void test_image(void)
{
    static const struct {
        const char *image;
        enum image_pull pull;
    } policies[] = { { "busybox", IMAGE_PULL_ALWAYS },
                     { "busybox:latest", IMAGE_PULL_ALWAYS },
                     { "r.example:5000/busybox", IMAGE_PULL_ALWAYS },
                     { "r.example:5000/busybox:1.36", IMAGE_PULL_MISSING },
                     { "busybox@sha256:00", IMAGE_PULL_MISSING } };
    static const char *const different[] = { "{\"image\":\"x:1\"}",
                                             "{\"image\":\"x:2\"}",
                                             "{\"image\":\"x:1\",\"workingDir\":\"/\"}",
                                             "{\"image\":\"x:1\",\"command\":[\"a\"]}",
                                             "{\"image\":\"x:1\",\"args\":[\"a\"]}",
                                             "{\"command\":[\"a\"]}" };
    char text[128];
    for (size_t i = 0; i < ARRAY_LEN(policies); i++) {
        snprintf(text, sizeof(text), "{\"image\":\"%s\"}", policies[i].image);
        is_int(decoded(text).pull, policies[i].pull, "the pull policy of %s", policies[i].image);
    }
    for (size_t i = 0; i < ARRAY_LEN(different); i++)
        for (size_t k = 0; k < i; k++)
            ok(strcmp(decoded(different[i]).process.revision, decoded(different[k]).process.revision) != 0, "%s is no revision of %s",
               different[i], different[k]);
    struct app_spec s = decoded("{\"image\":\"x:1\",\"imagePullPolicy\":\"Never\"}");
    is_str(s.runtime, "container", "an image is run by runtime container");
    is_str(s.process.revision, decoded(different[0]).process.revision, "when it is pulled is not part of the revision");
    ok(s.process.workdir == NULL, "the directory is the image's");
    app_spec_runtime(&s, "systemd");
    is_str(s.runtime, "container", "whatever the node's default is");
}

static void test_limits(void)
{
    static const char *const same[] = { "\"cpu\":1,\"memory\":67108864", "\"cpu\":\"1\",\"memory\":\"64Mi\"",
                                        "\"cpu\":\"1000m\",\"memory\":\"65536Ki\"" };
    char text[200], first[INST_REV_MAX] = "";
    for (size_t i = 0; i < ARRAY_LEN(same); i++) {
        snprintf(text, sizeof(text), "{" BASE ",\"resources\":{\"limits\":{%s}}}", same[i]);
        struct app_spec s = decoded(text);
        ok(s.process.limits.cpu_milli == 1000 && s.process.limits.memory == 64 << 20 && s.process.limits.pids == 0, "limits: %s", same[i]);
        if (i == 0)
            snprintf(first, sizeof(first), "%s", s.process.revision);
        is_str(s.process.revision, first, "limits: one revision, however it is written");
    }
    ok(strcmp(first, decoded("{" BASE "}").process.revision) != 0, "limits: they count");
}

static const char *lookup(const void *ctx, const char *name, size_t n)
{
    (void)ctx;
    if (n == 1 && name[0] == 'A')
        return "one";
    return n == 5 && memcmp(name, "EMPTY", 5) == 0 ? "" : NULL;
}

static void test_expand(void)
{
    static const char *const cases[][2] = {
        { "", "" },
        { "plain", "plain" },
        { "$(A)", "one" },
        { "x$(A)y$(A)", "xoneyone" },
        { "$(EMPTY)", "" },
        { "$(NONE)", "$(NONE)" },
        { "$$(A)", "$(A)" },
        { "$$$(A)", "$one" },
        { "$$$$(A)", "$$(A)" },
        { "$", "$" },
        { "$$", "$" },
        { "a$", "a$" },
        { "$x", "$x" },
        { "$(", "$(" },
        { "$(A", "$(A" },
        { "$()", "$()" },
        { "$(A$(A))", "$(A$(A))" },
        { "$($(A))", "$($(A))" },
        { "a)b$(A)", "a)bone" },
    };
    for (size_t i = 0; i < ARRAY_LEN(cases); i++)
        is_str(process_expand(cases[i][0], lookup, NULL, &arena), cases[i][1], "expands \"%s\"", cases[i][0]);
}

static const char *env_of(const struct exec_env *x, const char *name)
{
    size_t n = strlen(name);
    for (size_t i = 0; x->env[i] != NULL; i++)
        if (strncmp(x->env[i], name, n) == 0 && x->env[i][n] == '=')
            return x->env[i] + n + 1;
    return NULL;
}

static void test_exec_env(void)
{
    static const struct account who = { "alice", "/home/alice" }, nobody = { "", "" };
    struct err e = ERR_INIT;
    struct exec_env x;
    struct app_spec s =
        decoded("{\"command\":[\"app\",\"--n=$(LIMPET_INSTANCE)\"],\"args\":[\"$(A)\"],\"env\":[{\"name\":\"A\",\"value\":\"$(B)\"},"
                "{\"name\":\"HOME\",\"value\":\"/else\"}]}");
    is_int(app_exec_env(&s, 3, &who, &arena, &x, &e), 0, "builds");
    is_str(x.argv[1], "--n=3", "the instance's number is a variable");
    is_str(x.argv[2], "$(B)", "values are not expanded themselves");
    ok(x.argv[3] == NULL, "argv ends");
    is_str(env_of(&x, "USER"), "alice", "USER");
    is_str(env_of(&x, "HOME"), "/else", "the spec's HOME wins");
    ok(env_of(&x, "PATH") != NULL, "there is a PATH");
    is_int(app_exec_env(&s, 0, &nobody, &arena, &x, &e), 0, "builds without an account");
    ok(env_of(&x, "USER") == NULL, "an unknown USER is left out");
}

static void test_account(void)
{
    static const char passwd[] = "root:x:0:0:root:/root:/bin/sh\ncut:x\n\nbob:x:1000:1000::/home/bob:/bin/sh\n";
    struct account who;
    ok(account_find(&who, passwd, "bob"), "found by name");
    is_str(who.home, "/home/bob", "with its home");
    ok(account_find(&who, passwd, "1000"), "found by number");
    is_str(who.name, "bob", "with its name");
    ok(account_find(&who, passwd, "cut"), "a short line is read as far as it goes");
    is_str(who.home, "", "and does not run into the next");
    ok(!account_find(&who, passwd, "alice"), "not found");
    ok(!account_find(&who, "", "root"), "not found in nothing");
}

static void test_bounds(void)
{
    struct arena small;
    struct err e = ERR_INIT;
    AUTO_JSON struct json *j = NULL;
    struct app_spec s;
    struct exec_env x;
    AUTO_FREE char *text = spec_text("{\"command\":[\"x\",\"@\"]}", 30000);
    arena_init(&small, 20000);
    is_int(json_parse(&j, text, strlen(text), &e), 0, "a large spec");
    is_int(app_spec_decode(&s, j, "edge-1", &small, &e), 0, "decodes in little memory: texts are borrowed");
    is_int(app_exec_env(&s, 0, &(struct account){ "", "" }, &small, &x, &e), E_TOOBIG, "what does not fit is refused, not cut");
    arena_reset(&small);
}

int main(void)
{
    arena_init(&arena, 64 << 20);
    check_verdicts(verdicts, ARRAY_LEN(verdicts), decode);
    test_defaults();
    test_revision();
    test_runtime();
    test_image();
    test_limits();
    test_expand();
    test_exec_env();
    test_account();
    test_bounds();
    for (size_t i = 0; i < n_kept; i++)
        json_free(kept[i]);
    arena_reset(&arena);
    return done_testing();
}
