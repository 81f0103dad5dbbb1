# SPDX-License-Identifier: Apache-2.0
"""rig: clusters, agents and whatever stands between them, for one run of the bench.

Everything is made for the run and gone after it. State directories lie on a real disk (below build/bench), for a store on a RAM disk would
flatter; run directories, logs and the clusters lie in RAM, as /run does on a machine.
"""
import http.client
import json
import os
import queue
import shutil
import signal
import socket
import ssl
import subprocess
import sys
import tempfile
import threading
import time
import urllib.parse

HERE = os.path.dirname(os.path.abspath(__file__))
TOP = os.path.dirname(os.path.dirname(HERE))
OUT = os.environ.get("O") or os.path.join(TOP, "build")
HELPERS = os.path.join(OUT, "test", "bench")
CLUSTER = os.path.join(TOP, "test", "cluster", "cluster")
API = "edge.limpet.dev/v1alpha1"
EDGE = f"/apis/{API}/namespaces"


class BenchError(Exception):
    """The rig, or what it measures, did not do what a figure needs; the figure is then missing, not wrong."""


def now_ns():
    """The clock of stamp.c and born.c."""
    return time.clock_gettime_ns(time.CLOCK_MONOTONIC)


def run(*command, **options):
    """Runs a command to its end; what it printed is in the error if it fails."""
    done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False, **options)
    if done.returncode != 0:
        raise BenchError(f"{os.path.basename(command[0])} failed ({done.returncode}): {done.stdout.strip()[-500:]}")
    return done.stdout


def wait_for(what, seconds, condition, every=0.05):
    """Until condition() is true; its value. Only a defect reaches the deadline."""
    deadline = time.monotonic() + seconds
    while True:
        value = condition()
        if value:
            return value
        if time.monotonic() > deadline:
            raise BenchError(f"waited {seconds} s in vain: {what}")
        time.sleep(every)


# --- HTTPS -----------------------------------------------------------------------------------------------------------------------


IDLE_S = 30  # the server closes a connection that was idle for 90 s


class StampedSocket(ssl.SSLSocket):
    """Remembers when the last bytes came: the answer is there then, not when it has been parsed."""

    last_ns = 0

    def recv_into(self, *args, **kwargs):
        n = super().recv_into(*args, **kwargs)
        self.last_ns = now_ns()
        return n


class Client:
    """The administrator on one kept-alive connection. Not for two threads at once: each makes its own."""

    def __init__(self, kubeconfig):
        text = open(kubeconfig, encoding="utf-8").read()
        url = urllib.parse.urlsplit(_value(text, "server"))
        self.token = _value(text, "token")
        self.context = ssl.create_default_context(cafile=os.path.join(os.path.dirname(kubeconfig), "pki", "server-ca.crt"))
        self.context.sslsocket_class = StampedSocket
        self.host, self.port = url.hostname, url.port
        self.conn, self.used = None, 0.0
        self.answered_ns = 0  # when the last byte of the last answer came

    def _connect(self):
        self.conn = http.client.HTTPSConnection(self.host, self.port, context=self.context, timeout=60)
        self.conn.connect()
        self.conn.sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)

    def close(self):
        if self.conn is not None:
            self.conn.close()
        self.conn = None

    def send(self, method, path, body=None, kind="application/json"):
        """One exchange; (status, text)."""
        if time.monotonic() - self.used > IDLE_S:
            self.close()
        if self.conn is None:
            self._connect()
        self.used = time.monotonic()
        try:
            sock = self.conn.sock
            data = json.dumps(body).encode() if body is not None else None
            self.conn.request(method, path, data, {"Authorization": f"Bearer {self.token}", "Content-Type": kind})
            answer = self.conn.getresponse()
            text = answer.read()
            self.answered_ns = sock.last_ns
            return answer.status, text.decode()
        except (OSError, http.client.HTTPException):
            self.close()
            raise

    def ask(self, method, path, body=None, kind="application/json"):
        status, text = self.send(method, path, body, kind)
        if status >= 300:
            raise BenchError(f"{method} {path}: {status} {text[:300]}")
        return text

    def get(self, path):
        return json.loads(self.ask("GET", path))

    def create(self, ns, plural, body):
        return self.ask("POST", f"{EDGE}/{ns}/{plural}", body)

    def patch(self, ns, plural, name, body):
        return self.ask("PATCH", f"{EDGE}/{ns}/{plural}/{name}", body, "application/merge-patch+json")

    def delete(self, ns, plural, name):
        return self.ask("DELETE", f"{EDGE}/{ns}/{plural}/{name}")


def _value(text, key):
    """Of a kubeconfig that test/cluster wrote: one value a line."""
    for line in text.splitlines():
        if line.strip().startswith(key + ":"):
            return line.split(":", 1)[1].strip()
    raise BenchError(f"no {key} in the kubeconfig")


class Watch(threading.Thread):
    """Counts what a watch says, by object name, from now on."""

    def __init__(self, cluster, path):
        super().__init__(daemon=True)
        self.client = Client(cluster.kubeconfig)
        self.client._connect()
        rv = self.client.get(path + "?limit=1")["metadata"]["resourceVersion"]
        sep = "&" if "?" in path else "?"
        self.client.conn.request("GET", f"{path}{sep}watch=1&resourceVersion={rv}", None, {"Authorization": f"Bearer {self.client.token}"})
        self.answer = self.client.conn.getresponse()
        if self.answer.status != 200:
            raise BenchError(f"watch {path}: {self.answer.status}")
        self.counts = {}
        self.start()

    def run(self):
        try:
            for line in self.answer:
                event = json.loads(line)
                if event["type"] == "MODIFIED":
                    name = event["object"]["metadata"]["name"]
                    self.counts[name] = self.counts.get(name, 0) + 1
        except (OSError, ValueError, AttributeError, http.client.HTTPException):
            pass  # closed

    def stop(self):
        sock = self.client.conn.sock
        if sock is not None:
            sock.shutdown(socket.SHUT_RDWR)
        self.join(10)
        self.client.close()


# --- The rig ---------------------------------------------------------------------------------------------------------------------


def _roomy_ram(least=1 << 30):
    """A container's RAM disk may be too small for three clusters; then it is the usual place for temporary files."""
    try:
        there = os.statvfs("/dev/shm")
        return "/dev/shm" if there.f_bavail * there.f_frsize >= least else None
    except OSError:
        return None


class Rig:
    """Owns every process, directory, mount and namespace of a run."""

    def __init__(self, keep=False):
        self.keep = keep
        os.makedirs(os.path.join(OUT, "bench"), exist_ok=True)
        self.disk = tempfile.mkdtemp(prefix="run.", dir=os.path.join(OUT, "bench"))
        self.ram = tempfile.mkdtemp(prefix="limpet-bench.", dir=_roomy_ram())
        # Copies: a build meanwhile does not change what is measured.
        self.limpet = shutil.copy(os.path.join(OUT, "limpet"), self.disk)
        self.limpetctl = shutil.copy(os.path.join(OUT, "limpetctl"), self.disk)
        self.cleanups = []
        self.lock = threading.Lock()
        self.clusters = {}

    def at_exit(self, fn, *args):
        with self.lock:
            self.cleanups.append((fn, args))

    def close(self):
        """The latest first; one that fails does not keep the others."""
        while self.cleanups:
            fn, args = self.cleanups.pop()
            try:
                fn(*args)
            except (OSError, BenchError, subprocess.SubprocessError) as e:
                print(f"bench: clean-up: {e}", file=sys.stderr)
        if self.keep:
            print(f"bench: kept: {self.disk} {self.ram}", file=sys.stderr)
            return
        shutil.rmtree(self.disk, ignore_errors=True)
        shutil.rmtree(self.ram, ignore_errors=True)

    def cluster(self, name="main"):
        """The cluster of that name, started when first asked for."""
        with self.lock:
            known = self.clusters.get(name)
        if known is None:
            known = Cluster(self, name)
            with self.lock:
                self.clusters[name] = known
        return known

    def spawn(self, *command, **options):
        process = subprocess.Popen(command, **options)
        self.at_exit(end, process)
        return process


def end(process, sig=signal.SIGTERM, seconds=20):
    if process.poll() is None:
        process.send_signal(sig)
    try:
        process.wait(seconds)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()


class Cluster:
    def __init__(self, rig, name):
        self.dir = os.path.join(rig.ram, "cluster-" + name)
        self.kubeconfig = os.path.join(self.dir, "kubeconfig")
        rig.at_exit(self.command, "wipe")
        self.command("up", "--no-controller-manager", "--owner", str(os.getpid()))
        self.port = int(open(os.path.join(self.dir, "port"), encoding="ascii").read())
        self.env = dict(os.environ, KUBECONFIG=self.kubeconfig)
        run(rig.limpetctl, "install", env=self.env)

    def command(self, word, *options):
        run(CLUSTER, word, self.dir, *options)

    def client(self):
        return Client(self.kubeconfig)


class Relay:
    """relay.py in front of a cluster."""

    def __init__(self, rig, cluster, address="127.0.0.1"):
        self.address = address
        self.process = rig.spawn(sys.executable, os.path.join(HERE, "relay.py"), address, str(cluster.port),
                                 stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        self.port = int(self.process.stdout.readline())

    def ask(self, word):
        self.process.stdin.write(word + "\n")
        self.process.stdin.flush()
        return int(self.process.stdout.readline())

    def bytes(self):
        return self.ask("count")


class Agent:
    """One limpet with directories of its own, joined to the cluster. `settings`: {"section.key": value}."""

    def __init__(self, rig, cluster, name, settings=None, relay=None, netns=None, state=None, files=None):
        self.rig, self.cluster, self.name, self.netns = rig, cluster, name, netns
        self.ns = "edge-" + name
        self.state = state or os.path.join(rig.disk, name, "state")
        self.files = files or os.path.join(rig.disk, name, "files")
        self.run_dir = os.path.join(rig.ram, name)
        self.ini = os.path.join(self.run_dir, "limpet.ini")
        # A program file of its own, for pages shared with other agents would not be counted in full.
        self.program = shutil.copy(rig.limpet, os.path.join(rig.disk, "limpet-" + name))
        self.process, self.passes = None, None
        os.makedirs(self.files, exist_ok=True)
        os.makedirs(self.run_dir, exist_ok=True)
        self._configure(settings or {})
        self._join(relay)
        rig.at_exit(self.leave_machine)

    def _configure(self, settings):
        sections = {"paths": {"state": self.state, "run": self.run_dir, "log": os.path.join(self.run_dir, "log")},
                    "guard": {"paths": self.files}, "log": {"format": "json"}}
        for key, value in settings.items():
            section, name = key.split(".")
            sections.setdefault(section, {})[name] = value
        with open(self.ini, "w", encoding="utf-8") as f:
            for section, keys in sections.items():
                print(f"[{section}]", *(f"{k} = {v}" for k, v in keys.items()), sep="\n", file=f)

    def _join(self, relay):
        """As a person does: what `limpetctl node add` prints is run, and never touches a disk."""
        port = self.cluster.port if relay is None else relay.port
        address = "127.0.0.1" if relay is None else relay.address
        # The certificate speaks of 127.0.0.1 only, so joining goes there, and who lives elsewhere is told so afterwards.
        server = f"https://127.0.0.1:{port if address == '127.0.0.1' else self.cluster.port}"
        script = subprocess.run([self.rig.limpetctl, "node", "add", self.name, "--server", server, "--force"], env=self.cluster.env,
                                stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, check=False)
        if script.returncode != 0:
            raise BenchError(f"node add {self.name}: {script.stderr[-300:]}")
        command = script.stdout.replace("limpet join", f"'{self.rig.limpet}' --config '{self.ini}' join", 1)
        run("bash", "-s", input=command)
        if address != "127.0.0.1":
            self._move(f"https://{address}:{port}")

    def _move(self, server):
        path = os.path.join(self.state, "identity.json")
        identity = json.load(open(path, encoding="utf-8"))
        identity.update(server=server, serverName="localhost")
        fd = os.open(path, os.O_WRONLY | os.O_TRUNC)
        with os.fdopen(fd, "w", encoding="utf-8") as f:
            json.dump(identity, f)

    def start(self):
        command = [self.program, "--config", self.ini, "run"]
        if self.netns:
            command = ["ip", "netns", "exec", self.netns] + command
        log = open(os.path.join(self.run_dir, "agent.log"), "ab")
        self.process = self.rig.spawn(*command, stdin=subprocess.DEVNULL, stdout=log, stderr=log)
        log.close()
        wait_for(f"agent {self.name} is online", 300, self.online)
        return self

    @property
    def pid(self):
        return self.process.pid

    def stop(self):
        end(self.process)

    def leave_machine(self):
        """The agent and every instance that it started."""
        if self.process is not None:
            self.stop()
        for pid in self.shims():
            os.kill(pid, signal.SIGTERM)
        wait_for(f"instances of {self.name} are gone", 20, lambda: not self.shims())

    def shims(self):
        """Pids of the supervisors, by what they are called: `limpet shim UID`."""
        instances = os.path.join(self.run_dir, "i")
        uids = set(os.listdir(instances)) if os.path.isdir(instances) else set()
        return [pid for pid, argv in _processes() if len(argv) >= 3 and argv[1] == "shim" and argv[2] in uids]

    def ask(self, op, **more):
        """The control socket, as `limpet status` asks it; a list of lines. None: the agent does not answer."""
        try:
            with socket.socket(socket.AF_UNIX) as s:
                s.settimeout(30)
                s.connect(os.path.join(self.run_dir, "control.sock"))
                s.sendall(json.dumps(dict(more, op=op)).encode() + b"\n")
                with s.makefile("rb") as f:
                    return [json.loads(line) for line in f]
        except (FileNotFoundError, ConnectionError):
            return None

    def status(self):
        lines = self.ask("status")
        return lines[0] if lines else None

    def link(self):
        status = self.status()
        return status["link"]["state"] if status else None

    def online(self):
        if self.process.poll() is not None:
            raise BenchError(f"agent {self.name} ended with {self.process.returncode}: {self.last_words()}")
        return self.link() == "Online"

    def offline(self):
        return self.link() == "Offline"

    def quiet(self):
        """Since it was last asked, no pass was made. (Each object is queued for a later look at any time.)"""
        s = self.status()
        passes, self.passes = self.passes, s and s["engine"]["passes"]
        return s if s and passes == self.passes and s["engine"]["waiting"] == 0 else None

    def idle(self):
        """Quiet, and everything is reported."""
        s = self.quiet()
        return s and s["link"]["state"] == "Online" and s["outbox"]["statusPending"] == 0 and s["outbox"]["eventsPending"] == 0

    def settle(self, seconds=300):
        try:
            wait_for(f"agent {self.name} has nothing left to do", seconds, self.idle, 0.2)
        except BenchError as e:
            raise BenchError(f"{e}; {self.status()}; {self.last_words()}") from None
        return self

    def last_words(self):
        with open(os.path.join(self.run_dir, "agent.log"), encoding="utf-8", errors="replace") as f:
            return f.read()[-500:]


def _processes():
    for entry in os.listdir("/proc"):
        if entry.isdigit():
            try:
                with open(f"/proc/{entry}/cmdline", "rb") as f:
                    yield int(entry), f.read().decode(errors="replace").split("\0")[:-1]
            except OSError:
                pass  # it ended meanwhile


# --- Objects ---------------------------------------------------------------------------------------------------------------------


def edgeconfig(name, files):
    """`files`: {path: content}."""
    return {"apiVersion": API, "kind": "EdgeConfig", "metadata": {"name": name},
            "spec": {"files": [{"path": p, "content": c} for p, c in files.items()]}}


def edgeapp(name, command, **spec):
    return {"apiVersion": API, "kind": "EdgeApp", "metadata": {"name": name},
            "spec": dict(spec, command=command, terminationGracePeriodSeconds=5)}


def write(path, text):
    """As an editor that writes in place: same file, new content."""
    with open(path, "w", encoding="utf-8") as f:
        f.write(text)


# --- Those who tell the time -----------------------------------------------------------------------------------------------------


class Lines(threading.Thread):
    """Reads lines "NANOSECONDS TEXT" as they come."""

    def __init__(self, stream):
        super().__init__(daemon=True)
        self.stream, self.queue = stream, queue.Queue()
        self.start()

    def run(self):
        for line in self.stream:
            ns, _, rest = line.rstrip("\n").partition(" ")
            self.queue.put((int(ns), rest))

    def next(self, seconds):
        """(ns, text)"""
        try:
            return self.queue.get(timeout=max(0.0, seconds))
        except queue.Empty:
            raise BenchError("waited in vain for something to happen on the machine") from None

    def wait(self, text, seconds=120):
        """When the line with that text came about, in ns; lines before it are dropped."""
        deadline = time.monotonic() + seconds
        while True:
            ns, got = self.next(deadline - time.monotonic())
            if got == text:
                return ns


def stamp(rig, *directories):
    """stamp.c on these directories: Lines of "PATH FIRST-LINE"."""
    process = rig.spawn(os.path.join(HELPERS, "stamp"), *directories, stdout=subprocess.PIPE, text=True)
    if process.stdout.readline() != "ready\n":
        raise BenchError("stamp did not start")
    return Lines(process.stdout)


class Births:
    """A FIFO into which the workloads of born.c say when they started: Lines of NAME."""

    def __init__(self, rig, name):
        self.path = os.path.join(rig.ram, name + ".fifo")
        os.mkfifo(self.path, 0o600)
        # Read and write: it stays open whoever comes and goes.
        self.file = os.fdopen(os.open(self.path, os.O_RDWR | os.O_CLOEXEC), "r", encoding="ascii")
        self.lines = Lines(self.file)

    def command(self, name):
        return [os.path.join(HELPERS, "born"), self.path, name]

    def wait(self, name, seconds=120):
        return self.lines.wait(name, seconds)
