# SPDX-License-Identifier: Apache-2.0
"""identity: who the node is, and whom it talks to, changes: accounts, tokens, authorities, schemas, namespaces, a second agent of its name."""
import base64
import json
import os
import re
import shutil
import subprocess
import time

from node import CONVERGE_S, Node
from report import Row
from rig import CLUSTER, BenchError, Client, run as command, wait_for

CRD = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions/edgeconfigs.edge.limpet.dev"


def kubectl(cluster, *words, text=None):
    done = subprocess.run([CLUSTER, "kubectl", cluster.dir, *words], input=text, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, check=False)
    if done.returncode != 0:
        raise BenchError(f"kubectl {' '.join(words[:3])}: {done.stderr.strip()[-300:]}")
    return done.stdout


def at_work(run, settings=None, **more):
    node = Node(run.rig, run.cluster, run.seed, settings, **more)
    for name in "cd":
        node.config(name, f"{name} 0\n")
    node.app("one", replicas=2)
    return node


def harm_and_heal(node, row, chance, refresh=True):
    node.drift("d")
    node.kill_workload(chance)
    row.harmed += 2
    node.heals()
    row.healed = row.harmed
    row.changes += node.refresh(str(row.harmed)) if refresh else 0


def stands(node, row, before, what):
    now = sorted(w[0] for w in node.workloads())
    if now != before:
        row.wrong.append(f"{what}: processes {before} became {now}")


def pids(node):
    return sorted(w[0] for w in node.workloads())


def joins_again(run, node):
    """As a person does it: a new join command for a node that exists, run on its machine."""
    script = subprocess.run([run.rig.limpetctl, "node", "add", node.name, "--replace", "--server", f"https://127.0.0.1:{node.proxy.port}", "--force"],
                            env=run.cluster.env, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, check=False)
    if script.returncode != 0:
        raise BenchError(f"node add --replace {node.name}: {script.stderr[-300:]}")
    command("bash", "-s", input=script.stdout.replace("limpet join", f"'{run.rig.limpet}' --config '{node.ini}' join", 1))


# --- The account is deleted while a watch is open --------------------------------------------------------------------------------


def revoked(run):
    row = Row("account deleted while a watch is open")
    chance, node, told = run.chance("revoked"), at_work(run), []
    node.start().converge()
    for _ in range(run.pick(3, 1)):
        row.tried += 1
        before = pids(node)
        began = time.monotonic()
        kubectl(run.cluster, "delete", "serviceaccount", "limpet", "-n", node.ns)
        wait_for("the node says that its identity is lost", CONVERGE_S, lambda: node.link() == "IdentityLost", 0.1)
        told.append(time.monotonic() - began)
        stands(node, row, before, "identity lost")
        harm_and_heal(node, row, chance)
        node.config("c", f"c {row.tried}\n")
        row.changes += 1
        joined = time.monotonic()
        joins_again(run, node)
        row.right(node.converge(joined))
        run.step(row)
    row.judged(node.verdict())
    row.how = f"told as IdentityLost {', '.join(f'{t:.0f}' for t in told)} s after the deletion (a dead token works for 8 to 10 s, the lease is renewed every 10 s); time from `limpet join`"
    yield row


# --- Tokens and authorities in files ---------------------------------------------------------------------------------------------


class Files:
    """The credential in files, as in a container: a token that lives as long as a Secret, and a CA."""

    def __init__(self, run, node):
        self.run, self.node = run, node
        self.dir = os.path.join(run.rig.ram, node.name + "-files")
        self.ca, self.token = os.path.join(self.dir, "ca.crt"), os.path.join(self.dir, "token")
        os.makedirs(self.dir, mode=0o700)
        self.secrets = 0
        self.new_token()
        self.new_authority()
        with open(node.ini, "a", encoding="utf-8") as f:
            print(f"[server]\nurl = https://127.0.0.1:{node.proxy.port}\nca = {self.ca}\ntokenFile = {self.token}", file=f)
            print(f"[node]\nname = {node.name}\nnamespace = {node.ns}", file=f)

    def _put(self, path, text):
        with open(os.open(path + ".new", os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "w", encoding="ascii") as f:
            f.write(text)
        os.rename(path + ".new", path)

    def new_token(self):
        """Bound to a Secret of its own; the one before dies with its Secret."""
        old, self.secrets = self.secrets, self.secrets + 1
        cluster, ns = self.run.cluster, self.node.ns
        kubectl(cluster, "create", "secret", "generic", f"life-{self.secrets}", "-n", ns)
        self._put(self.token, kubectl(cluster, "create", "token", "limpet", "-n", ns, "--bound-object-kind", "Secret", "--bound-object-name", f"life-{self.secrets}"))
        if old:
            kubectl(cluster, "delete", "secret", f"life-{old}", "-n", ns)

    def new_authority(self):
        self._put(self.ca, open(os.path.join(self.run.cluster.dir, "pki", "server-ca.crt"), encoding="ascii").read())


def token(run):
    row = Row("token rotated while away", "the old one is dead when the link is back; every other time the file gets the new one only then; time from the link, or from the file")
    chance, node = run.chance("token"), at_work(run)
    files = Files(run, node)
    node.start().converge()
    for i in range(run.pick(6, 2)):
        row.tried += 1
        before = pids(node)
        node.proxy.refuse()
        wait_for("the agent notices", CONVERGE_S, node.offline, 0.05)
        if i % 2 == 0:
            files.new_token()
            time.sleep(run.pick(11, 1))  # for the old one to die
            node.proxy.accept()
        else:
            kept = open(files.token, encoding="ascii").read()
            files.new_token()
            fresh = open(files.token, encoding="ascii").read()
            files._put(files.token, kept)
            time.sleep(11)
            node.proxy.accept()
            time.sleep(chance.uniform(1, 15))
            files._put(files.token, fresh)
        node.config("c", f"c {i + 1}\n")
        row.changes += 1
        since = time.monotonic()
        stands(node, row, before, "a token")
        harm_and_heal(node, row, chance)
        row.right(node.converge(since))
        run.step(row)
    row.judged(node.verdict())
    yield row


def authority(run):
    row = Row("certificate authority replaced while away", "the server has a certificate of a new CA when it is back; every other time the file with the CA is replaced only later; time from the later of both")
    chance, node = run.chance("ca"), at_work(run)
    files = Files(run, node)
    node.start().converge()
    for i in range(4):
        row.tried += 1
        before = pids(node)
        node.proxy.refuse()
        run.cluster.command("stop-apiserver")
        replace_authority(run.cluster)
        if i % 2 == 0:
            files.new_authority()
        run.cluster.command("start-apiserver")
        node.client = Client(run.cluster.kubeconfig)
        node.proxy.accept()
        if i % 2:
            time.sleep(chance.uniform(3, 15))
            if node.online():
                row.wrong.append("online with a server of an unknown authority")
            files.new_authority()
        since = time.monotonic()
        node.config("c", f"c {i + 1}\n")
        row.changes += 1
        stands(node, row, before, "another authority")
        harm_and_heal(node, row, chance)
        row.right(node.converge(since))
        run.step(row)
    row.judged(node.verdict(server_restarts=True))
    yield row


def replace_authority(cluster):
    pki = os.path.join(cluster.dir, "pki")
    sh = """set -e; cd "$1"
        openssl ecparam -name prime256v1 -genkey -noout -out server-ca.key
        openssl req -x509 -new -config openssl.cnf -extensions authority -key server-ca.key -subj "/CN=another" -days 3650 -out server-ca.crt
        openssl x509 -req -in server.csr -CA server-ca.crt -CAkey server-ca.key -CAcreateserial -days 3650 -extfile openssl.cnf -extensions server -out server.crt"""
    command("sh", "-c", sh, "sh", pki)
    data = base64.b64encode(open(os.path.join(pki, "server-ca.crt"), "rb").read()).decode()
    kubeconfig = open(cluster.kubeconfig, encoding="ascii").read()
    with open(cluster.kubeconfig, "w", encoding="ascii") as f:
        f.write(re.sub(r"(certificate-authority-data: ).*", r"\g<1>" + data, kubeconfig))


# --- The schema ------------------------------------------------------------------------------------------------------------------


def crd(run):
    row = Row("CRD older and newer", "a CRD without a field of the status, the right one twice, each with another default for a new field; statuses are told, no process is touched; time from the change")
    chance, node = run.chance("crd"), at_work(run)
    for i in range(9):  # one for each try: who edits the same file again and again meets longer and longer waits
        node.config(f"d{i}", "d\n")
    node.start().converge()
    right = node.client.get(CRD)["spec"]
    before = pids(node)
    for i in range(run.pick(9, 3)):
        row.tried += 1
        spec = json.loads(json.dumps(right))
        schema = spec["versions"][0]["schema"]["openAPIV3Schema"]["properties"]
        if i % 3 == 0:
            schema["status"]["properties"].pop("driftRepairs")
        schema["spec"]["properties"]["novelty"] = {"type": "string", "default": f"new {i}."}
        node.client.ask("PATCH", CRD, [{"op": "replace", "path": "/spec/versions/0/schema", "value": spec["versions"][0]["schema"]}], "application/json-patch+json")
        since = time.monotonic()
        wait_for("the schema is in use", CONVERGE_S, lambda i=i: shows(node, i), 0.1)
        node.drift(f"d{i}")
        row.harmed += 1
        node.heals()
        node.config("c", f"c {i}\n")
        row.changes += 1
        row.right(node.converge(since))
        repairs = node.client.get(f"/apis/edge.limpet.dev/v1alpha1/namespaces/{node.ns}/edgeconfigs/d{i}")["status"].get("driftRepairs")
        if i % 3 and repairs != 1:
            row.wrong.append(f"driftRepairs is {repairs} after a repair")
        run.step(row)
    stands(node, row, before, "a schema")
    # What an old CRD did not keep is told again when its watch ends, minutes later, or with the next change, which is made here: so in the end
    # nothing may be missing, of no object. What was acknowledged under an old CRD the witness saw without the field; and its watch ends with
    # each change of the CRD.
    for i in range(0, row.tried, 3):
        node.drift(f"d{i}")
        row.harmed += 1
    node.heals()
    harm_and_heal(node, row, chance)
    row.right(node.converge())
    verdict = node.verdict()
    row.seen += verdict.seen
    row.lost += [w for w in verdict.lost if w.startswith(("event", "status")) and "the server never had it" not in w]
    row.twice += [w for w in verdict.twice if "before" not in w]
    yield row


def shows(node, i):
    """The server validates by the new schema: dry-run tells."""
    probe = {"apiVersion": "edge.limpet.dev/v1alpha1", "kind": "EdgeConfig", "metadata": {"name": "probe"}, "spec": {"files": [{"path": "/etc/probe", "content": ""}]}}
    status, text = node.client.send("POST", f"/apis/edge.limpet.dev/v1alpha1/namespaces/{node.ns}/edgeconfigs?dryRun=All", probe)
    if status != 201:
        raise BenchError(f"probe: {status} {text[:300]}")
    return f"new {i}." in text


# --- The namespace ---------------------------------------------------------------------------------------------------------------


def namespace(run):
    row = Row("namespace deleted and made again while away", "nothing is removed when the link is back, and it is told as IdentityLost; then the node is added anew, its objects are made again, and it joins; time from the join")
    chance, node = run.chance("namespace"), at_work(run)
    node.start().converge()
    for _ in range(run.pick(2, 1)):
        row.tried += 1
        before = pids(node)
        node.proxy.refuse()
        wait_for("the agent notices", CONVERGE_S, node.offline, 0.05)
        kubectl(run.cluster, "delete", "namespace", node.ns)
        command(run.rig.limpetctl, "node", "add", node.name, "--server", f"https://127.0.0.1:{node.proxy.port}", "--force", env=run.cluster.env)
        node.proxy.accept()
        wait_for("the node says that its identity is lost", CONVERGE_S, lambda: node.link() == "IdentityLost", 0.1)
        harm_and_heal(node, row, chance, refresh=False)  # there is nothing on the server to be changed
        for plural, specs in node.specs.items():
            for name, spec in list(specs.items()):
                specs.pop(name)
                kind = {"edgeapps": "EdgeApp", "edgeconfigs": "EdgeConfig"}[plural]
                node._put(plural, {"apiVersion": "edge.limpet.dev/v1alpha1", "kind": kind, "metadata": {"name": name}, "spec": spec})
                row.changes += 1
        before = pids(node)
        joined = time.monotonic()
        joins_again(run, node)
        row.right(node.converge(joined))
        stands(node, row, before, "another namespace of the same name")
        run.step(row)
    row.judged(node.verdict())
    yield row


# --- Two agents of one name ------------------------------------------------------------------------------------------------------


def twins(run):
    row = Row("two agents of one name", "the second one gets the credential of the first by a copy of its disk; it stands by, starts nothing, and takes over when the first is gone; then the first comes back and stands by; "
              "time from the death of the first to the second's being right, the lease's 40 s included")
    first = at_work(run)
    first.start().converge()
    second = Twin(first)
    for i in range(run.pick(3, 1)):
        row.tried += 1
        second.launch()
        wait_for("the second stands by", CONVERGE_S, lambda: second.link() == "Standby", 0.1)
        for n in range(3):
            first.config("c", f"c {i} {n}\n")
            row.changes += 1
            first.converge()
        if i == 0 and second.workloads():  # later it has a store, and goes on with what it knew, as any agent does without a server
            row.twice.append("the second one acted while it stood by")
        first.kill()
        died = time.monotonic()
        for pid in first.shims():
            first.kill_one(pid)
        for pid, *_ in first.workloads():
            first.kill_one(pid)
        wait_for("the second takes over", CONVERGE_S, lambda: second.link() == "Online", 0.1)
        row.seconds.append(time.monotonic() - died)
        wait_for("and does the work", CONVERGE_S, lambda: len(second.workloads()) == 2)
        row.arrived = row.changes
        run.step(row)
        first.launch()
        wait_for("the first stands by", CONVERGE_S, lambda: first.link() == "Standby", 0.1)
        second.stop()
        second.leave_machine()
        first.converge()
    verdict = first.verdict()
    # Each of the two starts the app on its own machine, has counts of its own, and says once more what it said when it was the holder before.
    row.seen, row.twice = verdict.seen, row.twice + [w for w in verdict.twice if not any(x in w for x in ("instance", "before", "driftRepairs"))]
    yield row


class Twin(Node):
    """A copy of another node's disk, on a machine of its own; the holder's id and the store are not on it."""

    def __init__(self, first):  # pylint: disable=super-init-not-called
        self.__dict__.update(first.__dict__)
        self.run_dir, self.state, self.files = first.run_dir + "-twin", first.state + "-twin", first.files
        self.ini = os.path.join(self.run_dir, "limpet.ini")
        os.makedirs(self.run_dir)
        os.makedirs(self.state, mode=0o700)
        shutil.copy(os.path.join(first.state, "identity.json"), self.state)
        text = open(first.ini, encoding="utf-8").read().replace(first.run_dir, self.run_dir).replace(first.state, self.state)
        with open(self.ini, "w", encoding="utf-8") as f:
            f.write(text)
        self.process, self.stores, self.passes = None, [], None
        self.rig.at_exit(self.leave_machine)
