# SPDX-License-Identifier: Apache-2.0
"""script: the requests that are played to both servers, in order.

"{NAME.key}" in a URL or a body is what the answer saved as NAME has as metadata.key on that side.
"""
NS = "n1"
EDGE = f"/apis/edge.limpet.dev/v1alpha1/namespaces/{NS}"
APPS, CONFIGS, NODES = (f"{EDGE}/{plural}" for plural in ("edgeapps", "edgeconfigs", "edgenodes"))
LEASES = f"/apis/coordination.k8s.io/v1/namespaces/{NS}/leases"
EVENTS = f"/apis/events.k8s.io/v1/namespaces/{NS}/events"
NAMESPACES = "/api/v1/namespaces"
CRDS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
MERGE, APPLY = "application/merge-patch+json", "application/apply-patch+yaml"
BY_LIMPET = "?fieldManager=limpet&force=true"
STREAMED = "watch=1&sendInitialEvents=true&resourceVersionMatch=NotOlderThan&allowWatchBookmarks=true&resourceVersion="
WHEN, LATER = "2026-01-01T00:00:00.000000Z", "2026-01-01T00:00:10.000000Z"


def step(label, method, url, body=None, kind=None, **more):
    return {"do": "request", "label": label, "method": method, "url": url, "body": body, "kind": kind, **more}


def get(label, url, **more):
    return step(label, "GET", url, **more)


def post(label, url, body, **more):
    return step(label, "POST", url, body, **more)


def merge(label, url, body, **more):
    return step(label, "PATCH", url, body, MERGE, **more)


def apply(label, name, status, query=BY_LIMPET, meta=None, **more):
    body = {"apiVersion": "edge.limpet.dev/v1alpha1", "kind": "EdgeApp", "metadata": {"name": name, "namespace": NS, **(meta or {})}}
    if status is not None:
        body["status"] = status
    body.update(more.pop("with_", {}))
    return step(label, "PATCH", f"{APPS}/{name}/status{query}", body, APPLY, **more)


def delete(label, url):
    return step(label, "DELETE", url)


def open_(label, name, url):
    return {"do": "open", "label": label, "name": name, "url": url}


def collect(label, name, events, seconds=20):
    return {"do": "collect", "label": label, "name": name, "events": events, "seconds": seconds}


def close(name):
    return {"do": "close", "name": name}


def settle(url, status=200, text=""):
    """Until the answer is this: what was done to the server is in force after a moment."""
    return {"do": "settle", "url": url, "status": status, "text": text}


def app(name, labels=None, **spec):
    meta = {"name": name, **({"labels": labels} if labels else {})}
    return {"apiVersion": "edge.limpet.dev/v1alpha1", "kind": "EdgeApp", "metadata": meta, "spec": {"command": ["/bin/app"], **spec}}


def condition(kind, status="True", **more):
    return {"type": kind, "status": status, "lastTransitionTime": "2026-01-01T00:00:00Z", "reason": "Good", "message": "", **more}


def without(d, key):
    return {k: v for k, v in d.items() if k != key}


# --- Objects


def namespaces():
    yield post("a namespace is made", NAMESPACES, {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": NS}})
    yield post("a namespace is made twice", NAMESPACES, {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": NS}})
    yield post("a namespace with dots", NAMESPACES, {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "a.b"}})
    yield get("the namespace", f"{NAMESPACES}/{NS}")
    yield get("kube-system", f"{NAMESPACES}/kube-system")
    yield get("a namespace that is not there", f"{NAMESPACES}/nowhere")
    active = f"{NAMESPACES}?fieldSelector=metadata.name%3D{{}}%2Cstatus.phase%3D{{}}"
    yield get("a namespace by name and phase", active.format(NS, "Active"))
    yield get("a namespace by another phase", active.format(NS, "Terminating"))
    yield get("a namespace that is not there, by name and phase", active.format("nowhere", "Active"))


def paths():
    yield get("an empty list", APPS)
    yield get("a list in a namespace that is not there", APPS.replace(NS, "nowhere"))
    yield get("an object in a namespace that is not there", APPS.replace(NS, "nowhere") + "/a")
    yield post("create in a namespace that is not there", APPS.replace(NS, "nowhere"), app("a"))
    yield get("a kind that is not there", f"{EDGE}/nothings")
    yield get("a group that is not there", "/apis/nothing.dev/v1/namespaces/n1/things")
    yield get("an object that is not there", f"{APPS}/a")
    yield delete("delete what is not there", f"{APPS}/a")
    for how, body in ((MERGE, {"status": {}}), (MERGE, "["), (APPLY, app("a"))):
        yield step(f"{how} of the status of what is not there ({str(body)[:1]})", "PATCH", f"{APPS}/a/status{BY_LIMPET}", body, how)
    yield merge("merge into what is not there", f"{APPS}/a", {"spec": {}})
    yield post("create", APPS, app("a"), save="first")
    yield post("create twice", APPS, app("a"))
    yield get("get", f"{APPS}/a")
    yield get("its status", f"{APPS}/a/status")
    yield get("a subresource that is not there", f"{APPS}/a/nothing")
    yield merge("a patch of a subresource that is not there", f"{APPS}/a/nothing", {})
    yield get("a list of one", APPS)
    yield get("the list of all namespaces", "/apis/edge.limpet.dev/v1alpha1/edgeapps")


def creation():
    bad = {
        "a name with capitals": app("Bad_Name"),
        "no name": {**app("x"), "metadata": {}},
        "another kind": {**app("b"), "kind": "EdgeConfig"},
        "another version": {**app("b"), "apiVersion": "edge.limpet.dev/v9"},
        "no kind": without(app("b"), "kind"),
        "another namespace": {**app("b"), "metadata": {"name": "b", "namespace": "other"}},
        "no spec": without(app("b"), "spec"),
        "no command": {**app("b"), "spec": {}},
        "no JSON": "{not json",
        "an array": "[]",
    }
    for what, body in bad.items():
        yield post(f"create: {what}", APPS, body)
    for kind in ("text/plain", MERGE, "application/x-www-form-urlencoded"):
        yield step(f"create as {kind}", "POST", APPS, app("b"), kind)
    values = {
        "replicas": ["3", -1, 33, 1.5, None, True, [], {}],
        "restartPolicy": ["always", "", 1],
        "runtime": ["docker"],
        "command": ["x", [1], [], None],
        "args": [None, [None], ["x"] * 257, "x"],
        "env": [[{}], [{"name": ""}], [{"name": "1x"}], [{"name": "A"}, {"name": "A"}], [{"name": "A", "value": 3}], {"name": "A"}],
        "nodeName": ["", "UP", "a" * 254, "-a", "a.b"],
        "user": ["", "x" * 33, 0],
        "terminationGracePeriodSeconds": [-1, 3601, "30", 2**40],
        "readinessProbe": [{"tcpSocket": {}}, {"tcpSocket": {"port": 0}}, {"tcpSocket": {"port": 70000}}, {"tcpSocket": {"port": "http"}}],
        "rlimits": [[{"name": "nofile"}], [{"name": "nonsense", "soft": 1, "hard": 1}], [{"name": "cpu", "soft": -2, "hard": 1}]],
    }
    for field, tries in values.items():
        for i, value in enumerate(tries):
            yield post(f"create: {field} is {str(value)[:30]}", APPS, app(f"v-{field.lower()}-{i}", **{field: value}))
    yield post("create: two errors", APPS, app("two", replicas=99, runtime="foo"))
    yield post("create: fields that nobody declared are dropped", APPS, app("undeclared", zzz=1, env=[{"name": "A", "zzz": 1}]))
    yield post("create: what the status says is dropped", APPS, {**app("with-status"), "status": {"replicas": 3}})
    yield post("create: labels and annotations stay", APPS, {**app("x"), "metadata": {"name": "labelled", "labels": {"l": "v"}, "annotations": {"a": "b"}}})
    yield post("create: defaults within", APPS, app("probe", readinessProbe={"httpGet": {"port": 80}}))
    yield get("all of them", APPS)
    for name in ("undeclared", "with-status", "labelled", "probe"):
        yield delete(f"delete {name}", f"{APPS}/{name}")
    yield delete("delete once more", f"{APPS}/probe")


# --- Writing


def status_by_merge():
    s = f"{APPS}/a/status"
    yield merge("status: an empty patch", s, {})
    yield merge("status: an empty status", s, {"status": {}})
    yield merge("status: the first", s, {"status": {"state": "Running"}}, save="one")
    yield merge("status: the same keeps the resourceVersion", s, {"status": {"state": "Running"}})
    yield merge("status: another", s, {"status": {"replicas": 1}})
    yield merge("status: spec and metadata do not count", s, {"spec": {"replicas": 7}, "metadata": {"labels": {"x": "y"}}, "status": {"replicas": 2}})
    yield merge("status: a wrong uid does not count", s, {"metadata": {"uid": "00000000-0000-0000-0000-000000000000"}, "status": {"replicas": 3}})
    yield merge("status: a stale resourceVersion", s, {"metadata": {"resourceVersion": "{one.resourceVersion}"}, "status": {"replicas": 4}})
    yield merge("status: of the future", s, {"metadata": {"resourceVersion": "99999999"}, "status": {"replicas": 4}})
    yield merge("status: no number", s, {"metadata": {"resourceVersion": "x"}, "status": {"replicas": 4}})
    yield merge("status: an empty resourceVersion", s, {"metadata": {"resourceVersion": ""}, "status": {"replicas": 4}})
    yield get("the current one", f"{APPS}/a", save="now")
    yield merge("status: the current resourceVersion", s, {"metadata": {"resourceVersion": "{now.resourceVersion}"}, "status": {"replicas": 4}})
    yield merge("status: another name", s, {"metadata": {"name": "b"}, "status": {"replicas": 5}})
    yield merge("status: another namespace", s, {"metadata": {"namespace": "b"}, "status": {"replicas": 5}})
    yield merge("status: undeclared fields are dropped", s, {"status": {"zzz": 1, "replicas": 5}})
    yield merge("status: only undeclared fields: nothing changes", s, {"status": {"zzz": 1}})
    yield merge("status: null takes away", s, {"status": {"state": None}})
    yield merge("status: null of what is not there", s, {"status": {"state": None}})
    good = condition("Ready")
    bad = {
        "no number": {"replicas": "x"},
        "below zero": {"replicas": -1},
        "no object": "x",
        "no list": {"conditions": {}},
        "an element that is none": {"conditions": ["x"]},
        "a condition of only a type": {"conditions": [{"type": "Ready"}]},
        "a condition without a type": {"conditions": [without(good, "type")]},
        "an unknown status": {"conditions": [{**good, "status": "Maybe"}]},
        "an empty reason": {"conditions": [{**good, "reason": ""}]},
        "a reason of two words": {"conditions": [{**good, "reason": "two words"}]},
        "a time that is none": {"conditions": [{**good, "lastTransitionTime": "yesterday"}]},
        "a long message": {"conditions": [{**good, "message": "x" * 32769}]},
        "a condition twice": {"conditions": [good, good]},
        "seventeen conditions": {"conditions": [condition(f"C{i}") for i in range(17)]},
        "a generation that is a text": {"conditions": [{**good, "observedGeneration": "1"}]},
    }
    for what, status in bad.items():
        yield merge(f"status: {what}", s, {"status": status})
    yield merge("status: a condition", s, {"status": {"conditions": [good]}})
    yield merge("status: a list is replaced as a whole", s, {"status": {"conditions": [condition("Other")]}})
    for kind in ("application/strategic-merge-patch+json", "application/json", "text/plain"):
        yield step(f"status as {kind}", "PATCH", s, {"status": {}}, kind)
    for what in ("[1]", "nonsense", "", "3"):
        yield merge(f"status: the body is {what!r}", s, what)
    yield merge("status: all away", s, {"status": None})
    yield get("what came out", f"{APPS}/a")


def status_by_apply():
    yield apply("apply: the first", "a", {"state": "Running", "observedGeneration": 1, "conditions": [condition("Ready")]}, save="one")
    yield apply("apply: the same keeps the resourceVersion", "a", {"state": "Running", "observedGeneration": 1, "conditions": [condition("Ready")]})
    yield apply("apply: what is not applied any more goes", "a", {"observedGeneration": 1, "conditions": [condition("Ready")]})
    yield apply("apply: another manager's condition", "a", {"conditions": [condition("Other")]}, "?fieldManager=other&force=true")
    yield apply("apply: ours, and the other one's stays", "a", {"observedGeneration": 2, "conditions": [condition("Ready", "False")]})
    yield apply("apply: two conditions", "a", {"conditions": [condition("Ready"), condition("Accepted")]})
    yield apply("apply: one of them goes", "a", {"conditions": [condition("Accepted")]})
    yield apply("apply: both own it", "a", {"conditions": [condition("Accepted")]}, "?fieldManager=other&force=true")
    yield apply("apply: one leaves it, it stays", "a", {"state": "Running"})
    yield apply("apply: the other one leaves it, too", "a", {"replicas": 1}, "?fieldManager=other&force=true")
    yield apply("apply: a conflict", "a", {"replicas": 2}, "?fieldManager=limpet")
    yield apply("apply: no conflict over the same", "a", {"replicas": 1}, "?fieldManager=limpet")
    yield apply("apply: by force", "a", {"replicas": 2})
    yield apply("apply: who lost it takes nothing away", "a", {}, "?fieldManager=other&force=true")
    yield merge("apply: a merge patch takes a field over", f"{APPS}/a/status", {"status": {"replicas": 3}})
    yield apply("apply: a conflict with a merge patch", "a", {"replicas": 4}, "?fieldManager=limpet")
    yield apply("apply: what somebody else set stays", "a", {"state": "Running"})
    yield apply("apply: a list that is one thing", "a", {"instances": [{"index": 0, "state": "Running"}]})
    yield apply("apply: is replaced", "a", {"instances": [{"index": 1, "state": "Running"}]})
    yield apply("apply: nothing at all", "a", None)
    yield apply("apply: an empty status", "a", {})
    yield apply("apply: a status again", "a", {"state": "Running", "conditions": [condition("Ready")]})
    yield merge("apply: a merge patch wipes it", f"{APPS}/a/status", {"status": None})
    yield apply("apply: and once more", "a", {"state": "Running", "conditions": [condition("Ready")]}, save="two")
    yield apply("apply: a stale resourceVersion", "a", {"state": "Failed"}, meta={"resourceVersion": "{one.resourceVersion}"})
    yield apply("apply: the current one", "a", {"state": "Failed"}, meta={"resourceVersion": "{two.resourceVersion}"})
    yield apply("apply: a wrong uid does not count", "a", {"state": "Running"}, meta={"uid": "00000000-0000-0000-0000-000000000000"})
    yield apply("apply: without a manager", "a", {}, "?force=true")
    yield apply("apply: another name", "a", {}, meta={"name": "b"})
    yield apply("apply: another namespace", "a", {}, meta={"namespace": "b"})
    yield apply("apply: another kind", "a", {}, with_={"kind": "EdgeConfig"})
    yield apply("apply: another version", "a", {}, with_={"apiVersion": "edge.limpet.dev/v9"})
    yield apply("apply: spec and labels do not count", "a", {"state": "Running"}, meta={"labels": {"x": "y"}}, with_={"spec": {"replicas": 9, "command": ["x"]}})
    bad = {
        "an undeclared field": {"zzz": 1},
        "an undeclared field within": {"conditions": [condition("Ready", zzz=1)]},
        "a text for a number": {"observedGeneration": "x"},
        "a number for a text": {"state": 1},
        "a condition without a type": {"conditions": [without(condition("Ready"), "type")]},
        "a condition twice": {"conditions": [condition("Ready"), condition("Ready")]},
        "a condition of only a type": {"conditions": [{"type": "Ready"}]},
        "an unknown status": {"conditions": [condition("Ready", "Maybe")]},
        "an empty reason": {"conditions": [condition("Ready", reason="")]},
        "below zero": {"replicas": -1},
        "seventeen conditions": {"conditions": [condition(f"C{i}") for i in range(17)]},
    }
    for what, status in bad.items():
        yield apply(f"apply: {what}", "a", status)
    yield step("apply: in YAML", "PATCH", f"{APPS}/a/status{BY_LIMPET}", f"apiVersion: edge.limpet.dev/v1alpha1\nkind: EdgeApp\nmetadata: {{name: a}}\nstatus:\n  state: Running\n", APPLY)
    yield step("apply: bad YAML", "PATCH", f"{APPS}/a/status{BY_LIMPET}", "a: [", APPLY)
    yield step("apply: without kind", "PATCH", f"{APPS}/a/status{BY_LIMPET}", {"status": {}}, APPLY)
    yield get("apply: what came out", f"{APPS}/a")


def spec_by_merge():
    a = f"{APPS}/a"
    yield merge("spec: a change makes a generation", a, {"spec": {"replicas": 2}}, save="one")
    yield merge("spec: the same makes none", a, {"spec": {"replicas": 2}})
    yield merge("spec: the status does not count", a, {"spec": {"replicas": 3}, "status": {"state": "Failed"}})
    yield merge("spec: only labels", a, {"metadata": {"labels": {"x": "y"}}})
    yield merge("spec: labels away", a, {"metadata": {"labels": {"x": None}}})
    yield merge("spec: an undeclared field", a, {"spec": {"zzz": 2}})
    yield merge("spec: over the bound", a, {"spec": {"replicas": 99}})
    yield merge("spec: null is the default again", a, {"spec": {"replicas": None}})
    yield merge("spec: null of what is needed", a, {"spec": {"command": None}})
    yield merge("spec: stale", a, {"metadata": {"resourceVersion": "{one.resourceVersion}"}, "spec": {"replicas": 4}})
    yield merge("spec: a wrong uid is refused here", a, {"metadata": {"uid": "00000000-0000-0000-0000-000000000000"}, "spec": {"replicas": 4}})
    yield merge("spec: another name", a, {"metadata": {"name": "b"}})
    yield get("spec: what came out", a)


def leases():
    spec = {"holderIdentity": "h", "leaseDurationSeconds": 40, "renewTime": WHEN, "acquireTime": WHEN}
    lease = {"apiVersion": "coordination.k8s.io/v1", "kind": "Lease", "metadata": {"name": "l"}, "spec": spec}
    one = f"{LEASES}/l"
    yield get("lease: not there", one)
    yield post("lease: made", LEASES, lease, save="one")
    yield post("lease: made twice", LEASES, lease)
    for what, more in (("no time", {"renewTime": "now"}), ("a time without microseconds", {"renewTime": "2026-01-01T00:00:00Z"}), ("no duration", {"leaseDurationSeconds": 0})):
        yield post(f"lease: {what}", LEASES, {**lease, "metadata": {"name": "m"}, "spec": {**spec, **more}})
    yield get("lease: read", one)
    yield merge("lease: renewed", one, {"metadata": {"resourceVersion": "{one.resourceVersion}"}, "spec": {"renewTime": LATER}})
    yield merge("lease: somebody else was faster", one, {"metadata": {"resourceVersion": "{one.resourceVersion}"}, "spec": {"renewTime": WHEN}})
    yield merge("lease: the same again changes nothing", one, {"spec": {"renewTime": LATER}})
    yield merge("lease: claimed, managedFields away", one, {"metadata": {"managedFields": [{}]}, "spec": {"holderIdentity": "g"}})
    yield merge("lease: a bad duration", one, {"spec": {"leaseDurationSeconds": 0}})
    yield merge("lease: an undeclared field", one, {"spec": {"zzz": 1}})
    yield merge("lease: no status", f"{one}/status", {"spec": {}})
    only = "application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1,application/json"
    yield merge("lease: answered with the metadata alone", one, {"spec": {"renewTime": WHEN}}, accept=only)
    yield apply("status: answered with the metadata alone", "a", {"state": "Pending"}, accept=only)
    yield apply("status: a conflict is answered in full", "a", {"state": "Failed"}, meta={"resourceVersion": "1"}, accept=only)
    yield get("leases: listed", LEASES)
    yield delete("lease: deleted", one)
    yield get("lease: gone", one)


def events():
    event = {
        "apiVersion": "events.k8s.io/v1", "kind": "Event", "metadata": {"name": "e1", "namespace": NS}, "eventTime": WHEN, "type": "Normal",
        "reason": "Started", "action": "Start", "note": "a note", "reportingController": "edge.limpet.dev/limpet", "reportingInstance": "node",
        "regarding": {"apiVersion": "edge.limpet.dev/v1alpha1", "kind": "EdgeApp", "name": "a", "namespace": NS},
    }
    yield post("event: made", EVENTS, event)
    yield post("event: made twice", EVENTS, event)
    yield post("event: another text under the same name", EVENTS, {**event, "note": "another"})
    yield get("event: read", f"{EVENTS}/e1")
    series = {"count": 3, "lastObservedTime": LATER}
    yield post("event: a series", EVENTS, {**event, "metadata": {"name": "e2"}, "series": series})
    long = "x" * 129
    tries = {
        "type": ["Odd", ""], "reason": ["", long], "action": ["", long], "note": ["", "x" * 1024, "x" * 1025],
        "reportingController": ["", "no space", "-a", "a/b", "plain"], "reportingInstance": ["", long, "x" * 128],
        "eventTime": [None, "yesterday", "2026-01-01T00:00:00Z", "2020-01-01T00:00:00.000000Z"],
        "regarding": [{"name": "a"}, {"name": "a", "namespace": NS}],
        "series": [{"count": 1, "lastObservedTime": WHEN}, {"count": 2}], "zzz": [1],
    }
    for field, values in tries.items():
        for i, value in enumerate(values):
            name = f"x-{field.lower()}-{i}"
            yield post(f"event: {field} is {str(value)[:25]!r}", EVENTS, {**event, "metadata": {"name": name}, field: value})
    yield post("event: a name with capitals", EVENTS, {**event, "metadata": {"name": "E1"}})
    yield post("event: without a name", EVENTS, {**event, "metadata": {}})


# --- Reading


def lists():
    for name in ("d", "b", "c", "e"):
        yield post(f"list: {name} is made", APPS, app(name, {"l": name, "odd": "yes"} if name in "bd" else {"l": name}, nodeName=f"node-{name}"))
    yield get("list: in the order of names", APPS)
    yield get("list: the first page", f"{APPS}?limit=2", save="page")
    yield get("list: the second", f"{APPS}?limit=2&continue={{page.continue}}", save="page2")
    yield get("list: the second again", f"{APPS}?limit=2&continue={{page.continue}}")
    yield post("list: something comes between", APPS, app("bb"))
    yield get("list: the last, of the same snapshot", f"{APPS}?limit=2&continue={{page2.continue}}")
    yield get("list: the rest at once", f"{APPS}?continue={{page.continue}}")
    yield get("list: exactly one page", f"{APPS}?limit=6")
    yield get("list: limit 0", f"{APPS}?limit=0")
    yield get("list: a limit that is none", f"{APPS}?limit=x")
    yield get("list: a token that is none", f"{APPS}?continue=nonsense")
    yield get("list: a token with a resourceVersion", f"{APPS}?resourceVersion=5&continue={{page.continue}}")
    for rv in ("0", "1", "99999999", "x"):
        yield get(f"list: from resourceVersion {rv}", f"{APPS}?resourceVersion={rv}")
    for query in ("resourceVersionMatch=Exact", "resourceVersion=1&resourceVersionMatch=NotOlderThan", "resourceVersion=1&resourceVersionMatch=Odd", "sendInitialEvents=true", "zzz=1"):
        yield get(f"list: {query}", f"{APPS}?{query}")
    for s in ("l=b", "l==b", "l!=b", "l", "!l", "l in (b,c)", "l notin (b,c)", "l=b,odd=yes", "l=c,odd=yes", "l in (b, d),!odd", "==", "l in b", "zzz=1"):
        yield get(f"list: labels {s}", f"{APPS}?labelSelector={quote(s)}")
    for s in ("metadata.name=b", "metadata.name==b", "metadata.name!=b", f"metadata.namespace={NS}", "metadata.namespace=other", "spec.nodeName=node-c", "spec.nodeName!=node-c", "spec.nodeName=", "spec.nodeName=node-c,metadata.name=b", "spec.replicas=1", "status.state=Running", "nonsense", "zzz=1"):
        yield get(f"list: fields {s}", f"{APPS}?fieldSelector={quote(s)}")
    yield get("list: both selectors", f"{APPS}?labelSelector=odd&fieldSelector=metadata.name%3Db")
    yield get("list: selected by pages", f"{APPS}?labelSelector=l&limit=3")
    yield get("list: a kind without fields to select", f"{NODES}?fieldSelector=spec.nodeName%3Dx")
    yield get("list: leases by name", f"{LEASES}?fieldSelector=metadata.name%3Dx")


def quote(s):
    return "".join(c if c.isalnum() or c in "-._" else f"%{ord(c):02X}" for c in s)


def watches():
    yield get("watch: where it begins", APPS, save="start")
    yield merge("watch: a change", f"{APPS}/b", {"spec": {"replicas": 4}})
    yield merge("watch: a status", f"{APPS}/b/status", {"status": {"replicas": 4}})
    yield merge("watch: one that changes nothing", f"{APPS}/b/status", {"status": {"replicas": 4}})
    yield post("watch: a new one", APPS, app("f", {"l": "b"}, nodeName="node-b"))
    yield merge("watch: another label", f"{APPS}/d", {"metadata": {"labels": {"l": "other"}}})
    yield delete("watch: a delete", f"{APPS}/b")
    w = f"{APPS}?watch=1&timeoutSeconds=1&resourceVersion={{start.resourceVersion}}"
    yield get("watch: all that happened since", w)
    for s in ("l=b", "l=d", "l=other", "l!=d", "zzz"):
        yield get(f"watch: labels {s}", f"{w}&labelSelector={quote(s)}")
    for s in ("metadata.name=b", "spec.nodeName=node-b", "spec.replicas=1", "nonsense"):
        yield get(f"watch: fields {s}", f"{w}&fieldSelector={quote(s)}")
    yield get("watch: of one namespace only", w.replace(NS, "nowhere"))
    yield get("watch: of all namespaces", w.replace(f"/namespaces/{NS}", ""))
    yield get("watch: where it ends", APPS, save="end")
    yield get("watch: nothing since", f"{APPS}?watch=1&timeoutSeconds=1&resourceVersion={{end.resourceVersion}}&allowWatchBookmarks=true")
    for rv in ("0", "", "99999999", "x", "1"):
        yield get(f"watch: from {rv!r}", f"{APPS}?watch=1&timeoutSeconds=1&resourceVersion={rv}")
    yield get("watch: watch=true", f"{APPS}?watch=true&timeoutSeconds=1&resourceVersion={{end.resourceVersion}}")
    yield get("stream: the first list", f"{APPS}?{STREAMED}&timeoutSeconds=1")
    yield get("stream: of nothing", f"{CONFIGS}?{STREAMED}&timeoutSeconds=1")
    yield get("stream: selected", f"{APPS}?{STREAMED}&timeoutSeconds=1&labelSelector=l%3Dc")
    yield get("stream: not older than now", f"{APPS}?{STREAMED}{{end.resourceVersion}}&timeoutSeconds=1")
    yield get("stream: of the future", f"{APPS}?{STREAMED}99999999&timeoutSeconds=9")
    yield get("stream: without bookmarks", f"{APPS}?{STREAMED.replace('&allowWatchBookmarks=true', '')}&timeoutSeconds=1")
    for query in ("sendInitialEvents=true&allowWatchBookmarks=true", "sendInitialEvents=true&resourceVersionMatch=Exact", "resourceVersionMatch=NotOlderThan&resourceVersion=0"):
        yield get(f"stream: {query}", f"{APPS}?watch=1&timeoutSeconds=1&{query}")
    yield open_("open: a watch", "w", f"{APPS}?watch=1&timeoutSeconds=300&resourceVersion={{end.resourceVersion}}")
    yield open_("open: a stream", "s", f"{APPS}?{STREAMED}&timeoutSeconds=300")
    yield open_("open: a watch of some", "l", f"{APPS}?watch=1&timeoutSeconds=300&labelSelector=l%3Dc&resourceVersion={{end.resourceVersion}}")
    yield collect("open: the first list", "s", 7)
    yield merge("open: a change", f"{APPS}/c", {"spec": {"replicas": 5}})
    yield merge("open: it loses its label", f"{APPS}/c", {"metadata": {"labels": {"l": "x"}}})
    yield merge("open: a change of what is not selected", f"{APPS}/c", {"spec": {"replicas": 6}})
    yield merge("open: it has its label again", f"{APPS}/c", {"metadata": {"labels": {"l": "c"}}})
    yield delete("open: it goes", f"{APPS}/c")
    yield collect("open: the watch heard it all", "w", 5)
    yield collect("open: the stream, too", "s", 5)
    yield collect("open: and who selects, what concerns it", "l", 4)
    for name in "wsl":
        yield close(name)


def restart():
    yield get("restart: before", APPS, save="old")
    yield merge("restart: a change", f"{APPS}/d", {"spec": {"replicas": 7}}, save="d")
    yield open_("restart: a watch", "w", f"{APPS}?watch=1&timeoutSeconds=300&resourceVersion={{d.resourceVersion}}")
    yield {"do": "restart"}
    yield settle(APPS)
    yield collect("restart: the watch ends", "w", None)
    yield get("restart: everything is there", APPS, save="fresh")
    yield get("restart: what was before is too old", f"{APPS}?watch=1&timeoutSeconds=1&resourceVersion={{old.resourceVersion}}")
    yield get("restart: what is now is not", f"{APPS}?watch=1&timeoutSeconds=1&resourceVersion={{fresh.resourceVersion}}")
    yield get("restart: pages go on", f"{APPS}?limit=2&continue={{page.continue}}")


def terminating():
    other = f"{NAMESPACES}/n2"
    nodes = NODES.replace(NS, "n2")
    node = {"apiVersion": "edge.limpet.dev/v1alpha1", "kind": "EdgeNode", "metadata": {"name": "n"}, "spec": {}}
    yield post("terminating: a namespace", NAMESPACES, {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "n2"}})
    yield post("terminating: with something in it", nodes, node)
    yield delete("terminating: it is deleted", other)
    yield get("terminating: it says so", other)
    yield get("terminating: what is in it is there for now", nodes)
    yield post("terminating: nothing new gets in", nodes, {**node, "metadata": {"name": "m"}})
    yield merge("terminating: a status does", f"{nodes}/n/status", {"status": {"observedGeneration": 1}})
    yield delete("terminating: and things go", f"{nodes}/n")


GROUP = "test.limpet.dev"
GADGETS = f"/apis/{GROUP}/v1/namespaces/{NS}/gadgets"


def gadget_crd(spec, status):
    """Its conditions are one thing, not a map by type."""
    schema = {"type": "object", "properties": {"spec": {"type": "object", "properties": spec}, "status": {"type": "object", "properties": status}}}
    version = {"name": "v1", "served": True, "storage": True, "subresources": {"status": {}}, "schema": {"openAPIV3Schema": schema}}
    names = {"plural": "gadgets", "singular": "gadget", "kind": "Gadget", "listKind": "GadgetList"}
    return {
        "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition", "metadata": {"name": f"gadgets.{GROUP}"},
        "spec": {"group": GROUP, "scope": "Namespaced", "names": names, "versions": [version]},
    }


def gadget(name, **spec):
    return {"apiVersion": f"{GROUP}/v1", "kind": "Gadget", "metadata": {"name": name}, "spec": spec}


def gadget_apply(label, status, manager="limpet"):
    body = {**without(gadget("a"), "spec"), "status": status}
    return step(label, "PATCH", f"{GADGETS}/a/status?fieldManager={manager}&force=true", body, APPLY)


def crds():
    text, number = {"type": "string"}, {"type": "integer"}
    conditions = {"type": "array", "items": {"type": "object", "properties": {"type": text, "status": text}}}
    old = gadget_crd({"size": number}, {"state": text, "conditions": conditions})
    new = gadget_crd({"size": number, "colour": {"type": "string", "default": "red"}}, {"state": text, "conditions": conditions, "more": text})
    one = f"{CRDS}/gadgets.{GROUP}"
    yield get("crd: its kind is not there", GADGETS)
    yield post("crd: made", CRDS, old, only="status")
    yield settle(GADGETS)
    yield get("crd: its kind is there", GADGETS)
    yield post("crd: an object", GADGETS, gadget("a", size=1, colour="blue"), save="a")
    yield post("crd: another", GADGETS, gadget("b", size=2))
    yield gadget_apply("crd: a condition", {"conditions": [{"type": "Ready", "status": "True"}]})
    yield gadget_apply("crd: another's replaces it where the list is one thing", {"conditions": [{"type": "Other", "status": "True"}]}, "other")
    yield gadget_apply("crd: a field that it does not have yet", {"more": "x"})
    yield merge("crd: the same by merge patch", f"{GADGETS}/a/status", {"status": {"more": "x", "state": "s"}})
    yield get("crd: before the change", GADGETS, save="before")
    yield merge("crd: a change of an object", f"{GADGETS}/b", {"spec": {"size": 3}})
    yield get("crd: where watches begin", GADGETS, save="begin")
    yield open_("crd: a watch is open", "g", f"{GADGETS}?watch=1&timeoutSeconds=300&resourceVersion={{begin.resourceVersion}}")
    yield merge("crd: it gets a field with a default", one, new, only="status")
    yield settle(f"{GADGETS}/a", text='"colour":"red"')
    yield settle(GADGETS)
    yield get("crd: the default stands in old objects, nothing else changed", GADGETS)
    yield collect("crd: the watch ends by itself and says nothing", "g", None)
    yield get("crd: what was before the change is too old", f"{GADGETS}?watch=1&timeoutSeconds=1&resourceVersion={{before.resourceVersion}}")
    yield gadget_apply("crd: now it has the field", {"more": "x"})
    yield merge("crd: a write that changes nothing writes no default", f"{GADGETS}/b", {"spec": {"size": 3}})
    yield merge("crd: one that does, does", f"{GADGETS}/b", {"spec": {"size": 4}})
    yield merge("crd: back to the old one", one, old, only="status")
    yield settle(f"{GADGETS}/a", text='"size":1},')
    yield settle(GADGETS)
    yield get("crd: what it does not know is not shown", GADGETS, save="last")
    yield open_("crd: a watch is open again", "g", f"{GADGETS}?watch=1&timeoutSeconds=300&resourceVersion={{last.resourceVersion}}")
    yield delete("crd: deleted", one) | {"only": "status"}
    yield collect("crd: each object is told as deleted, then the watch ends", "g", None)
    yield settle(GADGETS, 404)
    yield get("crd: its kind is gone", GADGETS)
    yield get("crd: and its objects", f"{GADGETS}/a")
    yield post("crd: nothing can be made", GADGETS, gadget("a"))
    yield post("crd: made again", CRDS, new, only="status")
    yield settle(GADGETS)
    yield get("crd: it begins empty", GADGETS)
    yield post("crd: an object of the old name", GADGETS, gadget("a", size=1))


def compaction():
    yield get("compact: a page", f"{APPS}?limit=1", save="page")
    yield merge("compact: a change", f"{APPS}/d", {"spec": {"replicas": 8}})
    yield {"do": "compact", "url": f"{APPS}?limit=1&continue={{page.continue}}"}
    yield get("compact: the token is too old, and brings another", f"{APPS}?limit=1&continue={{page.continue}}", save="page")
    yield get("compact: which goes on, with what is now", f"{APPS}?limit=1&continue={{page.continue}}")
    yield get("compact: a new list", f"{APPS}?limit=1")


def account():
    yield {"do": "orphan", "label": "account: its token is refused some time after it is deleted", "url": APPS}


PARTS = (namespaces, paths, creation, status_by_merge, status_by_apply, spec_by_merge, leases, events, lists, watches, restart, terminating, crds, compaction, account)


def steps():
    for part in PARTS:
        yield from part()
