# SPDX-License-Identifier: Apache-2.0
"""proxy: what goes wrong on the wire between an agent and its API server.

It hands bytes on without looking into them (TLS goes through), so whatever it does happens at any byte: in the middle of a record, a
header, a watch line. All connections are of one asyncio loop in a thread of its own; every method may be called from any thread and has
taken effect when it returns.
"""
import asyncio
import random
import socket
import struct
import threading

PIECE = 16384
BOTH = ("up", "down")  # up: from the agent to the server


class Proxy:
    def __init__(self, upstream, seed=0, address="127.0.0.1"):
        self.address, self.upstream, self.port = address, upstream, 0
        self.chance = random.Random(seed)
        self.pipes = set()
        self.server = None
        self.loop = asyncio.new_event_loop()
        self.clear_now()
        threading.Thread(target=self.loop.run_forever, daemon=True).start()
        self.accept()

    def _call(self, coroutine):
        return asyncio.run_coroutine_threadsafe(coroutine, self.loop).result(30)

    # --- What a test says

    def clear_now(self):
        self.latency, self.jitter, self.rate, self.cut = 0.0, 0.0, 0, 0
        self.stalled = ()
        self.moved = asyncio.Event()

    def fault(self, **what):
        """latency, jitter: seconds for each piece; rate: bytes a second and connection; cut: connections end after about so many bytes of
        an answer; stalled: directions ("up", "down") in which nothing arrives until the fault is over, as when each packet is lost."""
        async def set_them():
            self.clear_now()
            for name, value in what.items():
                setattr(self, name, value)
        self._call(set_them())

    def calm(self):
        """No fault; what was held back arrives now."""
        async def clear():
            held = self.moved
            self.clear_now()
            held.set()
        self._call(clear())

    def refuse(self):
        """Nobody listens, and everybody who was connected hears a reset."""
        async def close():
            if self.server is not None:
                self.server.close()
                self.server = None
            self._abort()
        self._call(close())

    def accept(self):
        async def listen():
            if self.server is None:
                self.server = await asyncio.start_server(self._connected, self.address, self.port)
                self.port = self.server.sockets[0].getsockname()[1]
        self._call(listen())

    def reset(self):
        async def abort():
            self._abort()
        self._call(abort())

    def forget(self):
        """What stands now leads nowhere any more and nobody is told, as when a router lost its table: half-open. New ones are fine."""
        async def lose():
            for pipe in self.pipes:
                pipe.lost = True
        self._call(lose())

    # --- What becomes of it

    def _abort(self):
        for pipe in list(self.pipes):
            pipe.abort()

    async def _connected(self, reader, writer):
        try:
            there = await asyncio.open_connection("127.0.0.1", self.upstream)
        except OSError:
            writer.transport.abort()
            return
        pipe = Pipe(self, writer, there[1])
        self.pipes.add(pipe)
        await asyncio.gather(pipe.pump(reader, there[1], "up"), pipe.pump(there[0], writer, "down"))
        self.pipes.discard(pipe)


class Pipe:
    """One connection: the agent's half and the server's."""

    def __init__(self, proxy, here, there):
        self.proxy, self.ends, self.lost = proxy, (here, there), False
        for end in self.ends:
            end.get_extra_info("socket").setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.left = None  # bytes until it is cut

    def abort(self):
        for end in self.ends:
            try:
                # No lingering: the peer sees a reset.
                end.get_extra_info("socket").setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
            except OSError:
                pass
            end.transport.abort()

    async def pump(self, reader, writer, way):
        try:
            while piece := await reader.read(PIECE):
                await self._delay(len(piece), way)
                if self.lost:
                    continue
                if self._is_cut(piece, writer, way):
                    break
                writer.write(piece)
                await writer.drain()
        except OSError:
            pass
        self.abort()

    async def _delay(self, n, way):
        p = self.proxy
        if p.latency or p.jitter:
            await asyncio.sleep(p.latency + p.jitter * p.chance.random())
        if p.rate:
            await asyncio.sleep(n / p.rate)
        while way in p.stalled:
            await p.moved.wait()

    def _is_cut(self, piece, writer, way):
        """In the middle of an answer: a part of the piece still arrives."""
        if way != "down" or not self.proxy.cut:
            return False
        if self.left is None:
            self.left = self.proxy.chance.randint(1, 2 * self.proxy.cut)
        self.left -= len(piece)
        if self.left > 0:
            return False
        writer.write(piece[:len(piece) + self.left])
        return True
