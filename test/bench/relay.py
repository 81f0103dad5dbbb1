#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""relay: a TCP relay that counts. A program of its own, so that it takes no time from whoever measures.

usage: relay.py LISTEN-ADDRESS UPSTREAM-PORT

Hands connections on to 127.0.0.1:UPSTREAM-PORT. What it counts is the payload of TCP, both ways together: with TLS and HTTP, without the
headers of TCP and IP. First it prints its port; then it answers the lines of its standard input with one line each:
  count     bytes so far
  refuse    connections are reset, new ones refused
  accept    and taken again, on the same port
It ends with its standard input.
"""
import os
import selectors
import socket
import struct
import sys

PIECE = 65536


class Relay:
    def __init__(self, address, upstream):
        self.address, self.upstream = (address, 0), ("127.0.0.1", upstream)
        self.selector = selectors.DefaultSelector()
        self.other = {}
        self.bytes = 0
        self.accept()
        self.selector.register(sys.stdin, selectors.EVENT_READ, self.command)

    def accept(self):
        self.listener = socket.create_server(self.address, backlog=128)
        self.address = self.listener.getsockname()
        self.selector.register(self.listener, selectors.EVENT_READ, self.connection)

    def refuse(self):
        self.selector.unregister(self.listener)
        self.listener.close()
        for sock in list(self.other):
            # No lingering: the peer sees a reset, as from a machine whose server is gone.
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
            self.close(sock)

    def connection(self, listener):
        client, _ = listener.accept()
        try:
            server = socket.create_connection(self.upstream)
        except OSError:
            client.close()
            return
        for a, b in ((client, server), (server, client)):
            a.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            self.other[a] = b
            self.selector.register(a, selectors.EVENT_READ, self.hand_on)

    def hand_on(self, sock):
        other = self.other.get(sock)
        if other is None:
            return
        try:
            piece = sock.recv(PIECE)
            other.sendall(piece)
        except OSError:
            piece = b""
        self.bytes += len(piece)
        if not piece:
            self.close(sock)
            self.close(other)

    def close(self, sock):
        if self.other.pop(sock, None) is not None:
            self.selector.unregister(sock)
            sock.close()

    def command(self, stdin):
        line = os.read(stdin.fileno(), 4096).decode()
        if not line:
            sys.exit(0)
        for word in line.split():
            if word in ("refuse", "accept"):
                getattr(self, word)()
            print(self.bytes, flush=True)

    def run(self):
        print(self.address[1], flush=True)
        while True:
            for key, _ in self.selector.select():
                key.data(key.fileobj)


if __name__ == "__main__":
    Relay(sys.argv[1], int(sys.argv[2])).run()
