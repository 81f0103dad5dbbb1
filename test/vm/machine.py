# SPDX-License-Identifier: Apache-2.0
"""machine: an emulated machine with power, disks, a clock, a network cable and a door.

The processor is emulated in software, so this runs wherever qemu does. The disks are disk.py's. The network is the emulator's own user-mode
one, in which one address exists: that of the API server. The door (guest/door) runs scripts as root, as a console would.
"""
import base64
import json
import os
import shutil
import socket
import subprocess
import time

from disk import SECTOR, Disk
from rig import TOP, BenchError, end

IMAGES = os.path.join(TOP, "build", "vm")
HERE = os.path.dirname(os.path.abspath(__file__))
BUSYBOX = os.path.join(IMAGES, "debian", "bin", "busybox")
BOOT_S = 240  # until the door is open; only a machine that hangs takes so long
ANSWER_S = 240


def build_images():
    done = subprocess.run([os.path.join(HERE, "image.sh")], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False)
    if done.returncode != 0:
        raise BenchError(f"no image: {done.stdout.strip()[-800:]}")


def install(image, program, path):
    """Puts a program into an image that nobody uses; path: where one lies already."""
    script = f"rm {path}\nwrite {program} {path}\nset_inode_field {path} mode 0100755\n"
    done = subprocess.run(["debugfs", "-w", "-f", "-", image], input=script, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False)
    if done.returncode != 0 or "Allocated inode" not in done.stdout:
        raise BenchError(f"{program} is not in the image: {done.stdout[-300:]}")


class Machine:
    def __init__(self, rig, directory, server_port, program=None):
        """program: another agent than the image has."""
        self.dir, self.server_port = directory, server_port
        self.rig = rig
        os.makedirs(directory, exist_ok=True)
        self.disks = [self._disk("root", program), self._disk("state")]
        self.log, self.marks_file = os.path.join(directory, "agent.log"), os.path.join(directory, "marks")
        self.process = self.door = self.qmp = None
        self.requests = 0
        self.started = self.up_s = 0.0
        self.boot_id = ""
        rig.at_exit(self.off)

    def _disk(self, name, program=None):
        image = os.path.join(self.dir, name + ".ext4")
        shutil.copyfile(os.path.join(IMAGES, name + ".ext4"), image)
        if program is not None:
            install(image, program, "/usr/sbin/limpet")
        return Disk(image, os.path.join(self.dir, name + ".nbd"))

    # --- power

    def start(self, cable=True, clock=None):
        """Power on. clock: what the battery-backed clock says, None = the right time."""
        for disk in self.disks:
            disk.power_on()
        doors = self._listen("door"), self._listen("qmp")
        self.started = time.monotonic()
        with open(os.path.join(self.dir, "qemu.log"), "ab") as said:
            self.process = subprocess.Popen(self._command(clock), stdin=subprocess.DEVNULL, stdout=said, stderr=said)
        self.qmp = Lines(doors[1], BOOT_S)
        self.qmp.line()
        self.monitor("qmp_capabilities")
        if not cable:
            self.set_cable(False)
        self.monitor("cont")
        self.door = Lines(doors[0], BOOT_S)

    def wait_up(self):
        """Until the door is open, which is long before the agent runs."""
        word, self.up_s, self.boot_id = self.door.line().split()
        if word != "up":
            raise BenchError(f"the door said {word}")
        self.up_s = float(self.up_s)

    def cut(self, rng, kept):
        """Power off without a word. What the disks had at stake and lost, added up."""
        self._kill()
        outcomes = [disk.cut(rng, kept) for disk in self.disks]
        return tuple(sum(column) for column in zip(*outcomes))

    def off(self):
        if self.process is not None:
            self._kill()
            for disk in self.disks:
                disk.power_off()

    def _kill(self):
        self.process.kill()
        self.process.wait()
        self.process = None
        for lines in (self.door, self.qmp):
            if lines is not None:
                lines.close()
        self.door = self.qmp = None

    def _listen(self, name):
        path = os.path.join(self.dir, name + ".sock")
        if os.path.exists(path):
            os.unlink(path)
        listener = socket.socket(socket.AF_UNIX)
        listener.bind(path)
        listener.listen(1)
        return listener

    def _command(self, clock):
        at = lambda name: os.path.join(self.dir, name)
        forward = f"guestfwd=tcp:10.0.2.100:6443-cmd:{BUSYBOX} nc 127.0.0.1 {self.server_port}"
        command = ["setpriv", "--pdeathsig", "KILL", "qemu-system-x86_64", "-nodefaults", "-no-user-config", "-display", "none", "-machine", "pc", "-accel", "tcg", "-cpu", "max",
                   "-m", "256", "-smp", "1", "-S", "-no-reboot", "-rtc", "base=" + (clock or "utc"),
                   "-kernel", os.path.join(IMAGES, "kernel"), "-initrd", os.path.join(IMAGES, "initrd"),
                   "-append", "console=ttyS0 quiet panic=-1 mitigations=off systemd.show_status=0 systemd.unified_cgroup_hierarchy=1",
                   "-chardev", f"file,id=console,path={at('console.log')},append=on", "-serial", "chardev:console", "-chardev", f"socket,id=qmp,path={at('qmp.sock')}", "-mon", "qmp,mode=control",
                   "-device", "virtio-serial", "-chardev", f"socket,id=door,path={at('door.sock')}", "-device", "virtserialport,chardev=door,name=door",
                   "-chardev", f"file,id=log,path={self.log},append=on", "-device", "virtserialport,chardev=log,name=log",
                   "-chardev", f"file,id=marks,path={self.marks_file},append=on", "-device", "virtserialport,chardev=marks,name=marks",
                   "-netdev", f"user,id=net,restrict=on,{forward}", "-device", "virtio-net,netdev=net,id=cable,romfile="]
        for disk in self.disks:
            name = os.path.basename(disk.path).split(".")[0]
            command += ["-blockdev", f"driver=nbd,node-name={name},server.type=unix,server.path={disk.path},cache.direct=on",
                        "-device", f"virtio-blk-pci,drive={name},write-cache=on,logical_block_size={SECTOR},physical_block_size={SECTOR}"]
        return command

    def marks(self):
        """What workloads wrote to the port of that name, a list of words a line; a power cut may take the end of the last line."""
        with open(self.marks_file, encoding="ascii", errors="replace") as f:
            return [line.split() for line in f if line.endswith("\n")]

    # --- the cable

    def set_cable(self, plugged):
        self.monitor("set_link", name="cable", up=plugged)

    def monitor(self, command, **arguments):
        self.qmp.send(json.dumps({"execute": command, "arguments": arguments}))
        while True:
            said = json.loads(self.qmp.line())
            if "return" in said:
                return said["return"]
            if "error" in said:
                raise BenchError(f"{command}: {said['error']}")

    # --- the door

    def run(self, script):
        """(exit status, output) of a script of bash in the machine."""
        self.requests += 1
        self.door.send(f"{self.requests} {base64.b64encode(script.encode()).decode()}")
        number, status, *output = self.door.line().split(" ")
        if int(number) != self.requests:
            raise BenchError(f"the door answered {number}, not {self.requests}")
        return int(status), base64.b64decode("".join(output)).decode(errors="replace")

    def must(self, script):
        status, output = self.run(script)
        if status != 0:
            raise BenchError(f"in the machine: {script[:200]}: {status}: {output[-500:]}")
        return output

    def put(self, script, secret):
        """Runs a script that holds a secret; it is in no message."""
        status, output = self.run(secret)
        if status != 0:
            raise BenchError(f"in the machine: {script}: {status}: {output[-300:]}")


class Lines:
    """Lines over the one connection that comes to a listening socket."""

    def __init__(self, listener, seconds):
        listener.settimeout(seconds)
        self.conn, _ = listener.accept()
        listener.close()
        self.conn.settimeout(ANSWER_S)
        self.file = self.conn.makefile("rb")

    def send(self, line):
        self.conn.sendall(line.encode() + b"\n")

    def line(self):
        line = self.file.readline()
        if not line.endswith(b"\n"):
            raise BenchError("the machine is gone")
        return line.decode().rstrip("\n")

    def close(self):
        self.file.close()
        self.conn.close()
