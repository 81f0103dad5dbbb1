# SPDX-License-Identifier: Apache-2.0
"""disk: a disk with a volatile write cache that a power cut empties; served to the emulator as an NBD export on a Unix socket.

Killing an emulator is no power cut for its disk: what the guest wrote lies in files of the host and stays. Here a write is only safe once
a FLUSH came after it, as on a real disk. cut() gives each sector that was written since the last flush one of the contents it had
since then, the flushed one included, each sector on its own: writes are lost, reordered and torn. What was flushed is kept always.

The emulator is the only client. Requests are served in the order they come, so a FLUSH covers every write that was answered before it.
"""
import os
import socket
import struct
import threading

# What a disk writes whole or not at all: the physical sector of disks and the page of flash. ext4 relies on it for the block that ends a
# transaction of its journal; torn within one it asks for a file system check, and no agent can start.
SECTOR = 4096

MAGIC, OPTION, OPTION_REPLY = 0x4E42444D41474943, 0x49484156454F5054, 0x0003E889045565A9
REQUEST, REPLY = 0x25609513, 0x67446698
FIXED_NEWSTYLE, NO_ZEROES = 1, 2
HAS_FLAGS, SEND_FLUSH, SEND_FUA = 1, 4, 8
OPT_EXPORT_NAME, OPT_ABORT, OPT_INFO, OPT_GO = 1, 2, 6, 7
REP_ACK, REP_INFO, REP_ERR_UNSUP = 1, 3, 0x80000001
CMD_READ, CMD_WRITE, CMD_DISC, CMD_FLUSH = 0, 1, 2, 3
CMD_FLAG_FUA = 1
EIO, EINVAL = 5, 22
EXPORT_FLAGS = HAS_FLAGS | SEND_FLUSH | SEND_FUA


class Disk:
    """One image file. power_on() before the emulator starts, cut() after it was killed."""

    def __init__(self, image, path):
        self.fd = os.open(image, os.O_RDWR)
        self.size = os.fstat(self.fd).st_size
        self.path = path
        self.cached = {}  # sector -> its contents since the last flush, oldest first, without the present one
        self.flushes = self.writes = 0
        self.fuse = None  # (how many writes from now, what to call then)
        self.listener = self.thread = None

    def power_on(self):
        self.listener = socket.socket(socket.AF_UNIX)
        if os.path.exists(self.path):
            os.unlink(self.path)
        self.listener.bind(self.path)
        self.listener.listen(1)
        self.thread = threading.Thread(target=self._serve, daemon=True)
        self.thread.start()

    def power_off(self):
        """After the emulator ended: returns when the last request it sent has been dealt with."""
        self.listener.close()
        self.thread.join(30)
        if self.thread.is_alive():
            raise RuntimeError(f"{self.path}: the emulator still holds its disk")

    def cut(self, rng, kept):
        """The emulator was killed. (sectors at stake, sectors that lost something). kept: the share of unflushed sectors that was written."""
        self.power_off()
        self.fuse = None
        lost = 0
        for sector, older in self.cached.items():
            if rng.random() >= kept:
                os.pwrite(self.fd, rng.choice(older), sector * SECTOR)
                lost += 1
        at_stake = len(self.cached)
        self.cached.clear()
        return at_stake, lost

    def close(self):
        os.close(self.fd)

    # --- one connection

    def _serve(self):
        try:
            conn, _ = self.listener.accept()
        except OSError:
            return  # closed before the emulator came
        with conn:
            try:
                if self._agree(conn):
                    while self._request(conn):
                        pass
            except (EOFError, OSError):
                pass  # killed

    def _agree(self, conn):
        """The fixed newstyle handshake; True when the client wants the disk."""
        conn.sendall(struct.pack(">QQH", MAGIC, OPTION, FIXED_NEWSTYLE | NO_ZEROES))
        flags, = struct.unpack(">I", exactly(conn, 4))
        while True:
            _, option, length = struct.unpack(">QII", exactly(conn, 16))
            exactly(conn, length)
            if option == OPT_EXPORT_NAME:
                conn.sendall(struct.pack(">QH", self.size, EXPORT_FLAGS) + (b"" if flags & NO_ZEROES else bytes(124)))
                return True
            if option == OPT_ABORT:
                answer(conn, option, REP_ACK)
                return False
            if option not in (OPT_GO, OPT_INFO):
                answer(conn, option, REP_ERR_UNSUP)
                continue
            answer(conn, option, REP_INFO, struct.pack(">HQH", 0, self.size, EXPORT_FLAGS))
            answer(conn, option, REP_INFO, struct.pack(">HIII", 3, SECTOR, SECTOR, 1 << 25))
            answer(conn, option, REP_ACK)
            if option == OPT_GO:
                return True

    def _request(self, conn):
        magic, flags, command, handle, offset, length = struct.unpack(">IHHQQI", exactly(conn, 28))
        if magic != REQUEST:
            raise EOFError
        data = exactly(conn, length) if command == CMD_WRITE else b""
        if command == CMD_DISC:
            return False
        error, read = 0, b""
        try:
            if command == CMD_READ:
                read = os.pread(self.fd, length, offset)
            elif command == CMD_WRITE:
                self._write(offset, data, flags & CMD_FLAG_FUA)
            elif command == CMD_FLUSH:
                self.cached.clear()
                self.flushes += 1
            else:
                error = EINVAL
        except OSError:
            error = EIO
        conn.sendall(struct.pack(">IIQ", REPLY, error, handle) + read)
        return True

    def _write(self, offset, data, fua):
        if offset % SECTOR or len(data) % SECTOR or offset + len(data) > self.size:
            raise OSError(EINVAL, "not whole sectors")
        before = os.pread(self.fd, len(data), offset)
        for at in range(0, len(data), SECTOR):
            sector = (offset + at) // SECTOR
            if fua:
                self.cached.pop(sector, None)
            else:
                self.cached.setdefault(sector, []).append(before[at : at + SECTOR])
        os.pwrite(self.fd, data, offset)
        self.writes += 1
        self._burn()

    def _burn(self):
        """The power goes after a certain write: nobody hears any more whether it was done."""
        if self.fuse is None:
            return
        left, blow = self.fuse
        self.fuse = (left - 1, blow) if left > 1 else None
        if left <= 1:
            blow()
            raise EOFError


def answer(conn, option, kind, data=b""):
    conn.sendall(struct.pack(">QIII", OPTION_REPLY, option, kind, len(data)) + data)


def exactly(conn, n):
    """Either all of it, or the peer is gone: then a request that came in half was never made."""
    got = bytearray()
    while len(got) < n:
        more = conn.recv(n - len(got))
        if not more:
            raise EOFError
        got += more
    return bytes(got)
