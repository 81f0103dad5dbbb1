#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The disk of the virtual machine keeps what was flushed and may lose all else, and nothing but that."""
import os
import random
import socket
import struct
import sys
import tempfile

from disk import CMD_FLAG_FUA, CMD_FLUSH, CMD_READ, CMD_WRITE, MAGIC, NO_ZEROES, OPT_EXPORT_NAME, OPTION, REPLY, REQUEST, SECTOR, Disk, exactly
from tap import Tap

SECTORS = 64
WIDE = 32  # sectors of one write
tap = Tap()


class Client:
    def __init__(self, path):
        self.conn = socket.socket(socket.AF_UNIX)
        self.conn.connect(path)
        magic, option, _ = struct.unpack(">QQH", exactly(self.conn, 18))
        self.conn.sendall(struct.pack(">IQII", NO_ZEROES, OPTION, OPT_EXPORT_NAME, 0))
        self.size, _ = struct.unpack(">QH", exactly(self.conn, 10))
        tap.ok((magic, option, self.size) == (MAGIC, OPTION, SECTORS * SECTOR), "the handshake")

    def ask(self, command, sector=0, data=b"", length=0, flags=0):
        self.conn.sendall(struct.pack(">IHHQQI", REQUEST, flags, command, 7, sector * SECTOR, len(data) or length) + data)
        magic, error, handle = struct.unpack(">IIQ", exactly(self.conn, 16))
        assert (magic, handle) == (REPLY, 7)
        return error, exactly(self.conn, length) if command == CMD_READ else b""

    def kill(self):
        self.conn.close()


def fill(letter, sectors=1):
    return letter.encode() * (SECTOR * sectors)


def content(disk, sector, sectors=1):
    return os.pread(disk.fd, SECTOR * sectors, sector * SECTOR)


def after(disk, writes, kept, seed=1):
    """Power on, the writes, a cut; what was read before the cut."""
    disk.power_on()
    client = Client(disk.path)
    for request in writes:
        client.ask(*request[0], **request[1])
    seen = client.ask(CMD_READ, length=SECTORS * SECTOR)[1]
    client.kill()
    return seen, disk.cut(random.Random(seed), kept)


def write(sector, data, flags=0):
    return (CMD_WRITE, sector, data), {"flags": flags}


FLUSH = (CMD_FLUSH,), {}

with tempfile.TemporaryDirectory() as directory:
    image = os.path.join(directory, "image")
    with open(image, "wb") as f:
        f.truncate(SECTORS * SECTOR)
    d = Disk(image, os.path.join(directory, "socket"))

    read, outcome = after(d, [write(0, fill("a", WIDE)), FLUSH, write(0, fill("b", WIDE)), write(WIDE, fill("c"))], 0.0)
    tap.ok(read.startswith(fill("b", WIDE) + fill("c")), "what was written is read, flushed or not")
    tap.ok(content(d, 0, WIDE) == fill("a", WIDE), "a cut takes what was not flushed, and what was is there")
    tap.ok(content(d, WIDE) == bytes(SECTOR), "what was never flushed is as it was at first")
    tap.ok(outcome == (WIDE + 1, WIDE + 1), "and counted")

    after(d, [write(0, fill("b", WIDE)), write(WIDE, fill("c"))], 1.0)
    tap.ok(content(d, 0, WIDE + 1) == fill("b", WIDE) + fill("c"), "a cut may take nothing")

    after(d, [write(0, fill("d", WIDE))], 0.5)
    left = {content(d, i) for i in range(WIDE)}
    tap.ok(left == {fill("b"), fill("d")}, "or tear: sectors of the old and of the new, each whole")

    after(d, [write(0, fill(letter, WIDE)) for letter in "efg"], 0.2, seed=3)
    left = {content(d, i)[:1].decode() for i in range(WIDE)}
    tap.ok(left >= {"e", "f", "g"} and left <= set("bdefg"), f"or leave what was there in between: {''.join(sorted(left))}")

    after(d, [write(40, fill("h"), CMD_FLAG_FUA), write(41, fill("i"))], 0.0)
    tap.ok(content(d, 40, 2) == fill("h") + bytes(SECTOR), "a write through the cache is kept, alone")

    d.power_on()
    c = Client(d.path)
    tap.ok(c.ask(CMD_WRITE, SECTORS - 1, fill("z", 2))[0] != 0, "nothing is written behind the end")
    blown = []
    d.fuse = (2, lambda: blown.append(True))
    c.ask(CMD_WRITE, 50, fill("j"))
    try:
        c.ask(CMD_WRITE, 51, fill("k"))
        answered = True
    except EOFError:
        answered = False
    c.kill()
    d.cut(random.Random(1), 1.0)
    tap.ok(blown == [True] and not answered and content(d, 50, 2) == fill("j") + fill("k"), "the fuse: after that write, and before its answer")
    d.close()

sys.exit(tap.done())  # which prints the plan: 1..N
