# SPDX-License-Identifier: Apache-2.0
"""How soon an agent is back: after a server that was gone, packets that were dropped, a link that was down. And that nothing was lost.

"Back" is when a change of the spec reaches the machine. Several agents share each outage, for a single one says little about a jittered
wait; each figure is the worst of them.
"""
import os
import threading
import time

from figures import Figure, median
from rig import Agent, BenchError, Client, Relay, Watch, edgeconfig, now_ns, run, stamp, wait_for

AGENTS = 6


class Crowd:
    """Agents with one file each, and who sees the files change."""

    def __init__(self, bench, cluster, prefix, **options):
        self.cluster = cluster
        self.agents = [Agent(bench.rig, cluster, f"{prefix}-{i}", {"outbox.rate": "1000"}, **options) for i in range(AGENTS)]
        self.seen = stamp(bench.rig, *(a.files for a in self.agents))
        client = cluster.client()
        for a in self.agents:
            a.start()
            client.create(a.ns, "edgeconfigs", edgeconfig("it", {self.path(a): "before\n"}))
        self.arrivals("before")
        client.close()

    @staticmethod
    def path(agent):
        return f"{agent.files}/it"

    def change(self, text, client=None):
        own = client or self.cluster.client()
        for a in self.agents:
            own.patch(a.ns, "edgeconfigs", "it", {"spec": {"files": [{"path": self.path(a), "content": text + "\n"}]}})
        if client is None:
            own.close()

    def arrivals(self, text, seconds=180):
        """When each file got that text, in ns, in the order of arrival."""
        wanted, times = {f"{self.path(a)} {text}" for a in self.agents}, []
        deadline = time.monotonic() + seconds
        while wanted:
            ns, rest = self.seen.next(deadline - time.monotonic())
            if rest in wanted:
                wanted.remove(rest)
                times.append(ns)
        return times

    def all_offline(self):
        return all(a.offline() for a in self.agents)

    def stop(self):
        for a in self.agents:
            a.stop()


def _back(name, since_ns, times, budget, how):
    seconds = [(t - since_ns) / 1e9 for t in times]
    yield Figure(name, "s", max(seconds), budget, f"{how}; worst of {len(seconds)} agents, median {median(seconds):.2f} s")


def _minutes(seconds):
    return f"{seconds // 60} min" if seconds % 60 == 0 else f"{seconds} s"


# --- A server that is gone -------------------------------------------------------------------------------------------------------


def refused(bench):
    cluster = bench.rig.cluster("refused")
    crowd = Crowd(bench, cluster, "refused")
    away = bench.pick(300, 30)
    began = time.monotonic()
    cluster.command("stop-apiserver")
    wait_for("the agents notice", 120, crowd.all_offline, 0.2)
    time.sleep(away - (time.monotonic() - began))
    starter = threading.Thread(target=cluster.command, args=("start-apiserver",))
    starter.start()
    client = Client(cluster.kubeconfig)
    wait_for("the server is ready", 120, lambda: _is_ready(client), 0.01)
    ready = now_ns()
    crowd.change("after", client)
    times = crowd.arrivals("after")
    starter.join()
    crowd.stop()
    yield from _back(f"back after {_minutes(away)} away, connections refused", ready, times, 15,
                     "the API server was stopped and started again: from its first ready answer to a change of the spec on the machine")


def _is_ready(client):
    try:
        return client.send("GET", "/readyz")[0] == 200
    except OSError:
        return False


# --- Packets that vanish, and a link that goes -----------------------------------------------------------------------------------


class Network:
    """A network namespace, joined to this machine by a pair of virtual cards."""

    def __init__(self, rig):
        tag = f"lb{os.getpid() % 100000}"
        self.name, self.here, self.there = tag, tag + "a", tag + "b"
        self.subnet = f"10.{200 + os.getpid() % 50}.{os.getpid() // 50 % 250}"
        run("ip", "netns", "add", self.name)
        rig.at_exit(run, "ip", "netns", "del", self.name)
        run("ip", "link", "add", self.here, "type", "veth", "peer", "name", self.there, "netns", self.name)
        self.address = self.subnet + ".1"
        run("ip", "addr", "add", self.address + "/24", "dev", self.here)
        run("ip", "link", "set", self.here, "up")
        for command in (f"addr add {self.subnet}.2/24 dev {self.there}", f"link set {self.there} up", "link set lo up"):
            run("ip", "-n", self.name, *command.split())

    def drop(self, on):
        for chain in ("INPUT", "OUTPUT"):
            run("ip", "netns", "exec", self.name, "iptables", "-w", "-A" if on else "-D", chain, "-j", "DROP")

    def link(self, up):
        """The far card: the near one sees its carrier go and come, as with a cable."""
        run("ip", "link", "set", self.here, "up" if up else "down")


def dropped(bench):
    network = Network(bench.rig)
    relay = Relay(bench.rig, bench.rig.cluster(), network.address)
    crowd = Crowd(bench, bench.rig.cluster(), "dropped", relay=relay, netns=network.name)
    away = bench.pick(300, 30)
    began = time.monotonic()
    network.drop(True)
    wait_for("the agents notice", 120, crowd.all_offline, 0.2)
    crowd.change("after")
    time.sleep(away - (time.monotonic() - began))
    network.drop(False)
    back = now_ns()
    times = crowd.arrivals("after")
    yield from _back(f"back after {_minutes(away)} away, packets dropped", back, times, 20,
                     "every packet of the agents' network namespace was dropped: from the end of that to a change of the spec on the machine")
    yield from _link_up(bench, network, crowd)
    crowd.stop()


def _link_up(bench, network, crowd):
    times = []
    for i in range(bench.pick(3, 2)):
        network.link(False)
        wait_for("the agents notice", 120, crowd.all_offline, 0.2)
        crowd.change(f"link {i}")
        time.sleep(bench.pick(20, 5))  # the backoff has grown by then
        network.link(True)
        up = now_ns()
        times += [t - up for t in crowd.arrivals(f"link {i}")]
    yield from _back("back after a link-up", 0, times, 2, "the carrier of the only card went and came: from its coming to a change of the spec on the machine")


# --- Nothing lost, nothing twice -------------------------------------------------------------------------------------------------

FILES, RATE, RING = 10, 200, 5000


class Offline:
    """Many objects with ten files each; while the agent is away each file is edited and repaired once: ten status changes an object."""

    def __init__(self, bench):
        self.objects = bench.pick(1000, 100)
        self.cluster = bench.rig.cluster("replay")
        self.relay = Relay(bench.rig, self.cluster)
        self.agent = Agent(bench.rig, self.cluster, "replay", {"outbox.rate": "1000", "engine.resync": "1h"}, self.relay,
                           files=os.path.join(bench.rig.ram, "replay-files"))
        self.client = self.cluster.client()

    def path(self, obj, f):
        return f"{self.agent.files}/{obj}/{f}"

    def create(self):
        for o in range(self.objects):
            self.client.create(self.agent.ns, "edgeconfigs", edgeconfig(f"c-{o}", {self.path(o, f): "right\n" for f in range(FILES)}))
        self.agent.start().settle()

    def slow_down(self):
        """The rate of the replay; it is read at the start."""
        self.agent.stop()
        text = open(self.agent.ini, encoding="utf-8").read().replace("rate = 1000", f"rate = {RATE}")
        open(self.agent.ini, "w", encoding="utf-8").write(text)
        self.agent.start().settle()

    def edit_all(self):
        for f in range(FILES):
            for o in range(self.objects):
                with open(self.path(o, f), "w", encoding="ascii") as file:
                    file.write("wrong\n")
            wait_for("all files are repaired", 300, lambda f=f: self._repaired(f), 0.1)

    def _repaired(self, f):
        return all(open(self.path(o, f), encoding="ascii").read() == "right\n" for o in range(self.objects))

    def status_patches(self):
        """How many status requests for EdgeConfigs the server has answered, by its own count; (accepted, others)."""
        accepted = others = 0
        for line in self.client.ask("GET", "/metrics").splitlines():
            if line.startswith("apiserver_request_total{") and 'resource="edgeconfigs"' in line and 'subresource="status"' in line:
                count = int(float(line.rsplit(" ", 1)[1]))
                accepted, others = (accepted + count, others) if 'code="200"' in line else (accepted, others + count)
        return accepted, others

    def repairs(self):
        """What the server knows: driftRepairs of each object."""
        items = self.client.get(f"/apis/edge.limpet.dev/v1alpha1/namespaces/{self.agent.ns}/edgeconfigs")["items"]
        return {i["metadata"]["name"]: i["status"].get("driftRepairs", 0) for i in items}

    def server_events(self, after):
        items = self.client.get(f"/apis/events.k8s.io/v1/namespaces/{self.agent.ns}/events")["items"]
        return {(i["regarding"]["name"], i["reason"], i["note"], i["eventTime"]) for i in items if i["eventTime"] > after}

    def ring(self):
        """The events that wait in the agent, as the server should get to know them."""
        lines = self.agent.ask("outbox")
        return {(e["key"].rsplit("/", 1)[1], e["reason"], e["note"], e["at"]) for e in lines if e.get("type") == "event"}


def replay(bench):
    o = Offline(bench)
    o.create()
    o.slow_down()
    o.relay.ask("refuse")
    wait_for("the agent notices", 120, o.agent.offline, 0.2)
    began = time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(time.time() - 1))
    o.edit_all()
    wait_for("the agent is done", 300, o.agent.quiet, 0.2)
    waiting, ring = o.agent.status()["outbox"], o.ring()
    if waiting["statusPending"] < o.objects or len(ring) != waiting["eventsPending"]:
        raise BenchError(f"too little waits to be sent: {waiting}, {len(ring)} events")
    accepted = Watched(o)
    o.relay.ask("accept")
    wait_for("the agent is back", 120, o.agent.online, 0.01)
    online = now_ns()
    o.agent.settle(600)
    seconds = (now_ns() - online) / 1e9
    yield from _replayed(o, seconds, waiting)
    yield from accepted.figures()
    arrived = o.server_events(began)
    yield Figure("replay, events of the ring that did not arrive with their own time", "events", len(ring - arrived), 0,
                 f"{len(ring):,} events waited ({waiting['eventsLost']:,} older ones had left the ring of {RING:,} and are reported as lost); "
                 "object, reason, note and eventTime are compared", fails=True)
    o.agent.stop()
    o.cluster.command("down")


class Watched:
    """What the server accepts from now on: by its watch (changes of each object) and by its count of requests."""

    def __init__(self, o):
        self.o = o
        self.watch = Watch(o.cluster, f"/apis/edge.limpet.dev/v1alpha1/namespaces/{o.agent.ns}/edgeconfigs")
        self.before = o.status_patches()

    def figures(self):
        o = self.o
        accepted, refused_ = (now - then for now, then in zip(o.status_patches(), self.before))
        wait_for("the watch tells all", 30, lambda: sum(self.watch.counts.values()) >= o.objects, 0.1)
        self.watch.stop()
        wrong = [name for name in (f"c-{i}" for i in range(o.objects)) if self.watch.counts.get(name) != 1]
        stale = [name for name, n in o.repairs().items() if n != FILES]
        how = f"{o.objects:,} objects; the server's watch, its count of status requests and the driftRepairs it stores are compared"
        yield Figure("replay, final statuses not accepted exactly once", "objects", len(wrong), 0, how, fails=True)
        yield Figure("replay, final statuses that are not the last one", "objects", len(stale), 0, how, fails=True)
        yield Figure("replay, status requests beyond one an object", "requests", accepted + refused_ - o.objects, 0, how, fails=True)


def _replayed(o, seconds, waiting):
    changes = o.objects * FILES
    requests = waiting["statusPending"] + waiting["eventsPending"]
    yield Figure(f"replay of {changes:,} changes over {o.objects:,} objects", "s", seconds, 60,
                 f"from link Online to an empty outbox at outbox.rate={RATE}: {waiting['statusPending']:,} statuses and {waiting['eventsPending']:,} events, "
                 f"{requests / seconds:.0f} requests a second")
