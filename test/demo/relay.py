#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""relay: a cable between the demo's node and its API server. Ending it is pulling the plug.

usage: relay.py PORT TO-PORT

Hands on the bytes of each connection to 127.0.0.1:PORT, which must be free, to 127.0.0.1:TO-PORT.
"""
import socket
import sys
import threading


def carry(source, sink):
    try:
        while piece := source.recv(65536):
            sink.sendall(piece)
    except OSError:
        pass
    for end in (source, sink):
        try:
            end.shutdown(socket.SHUT_RDWR)
        except OSError:
            pass


def connect(near, to_port):
    try:
        far = socket.create_connection(("127.0.0.1", to_port))
    except OSError:
        near.close()
        return
    for ends in ((near, far), (far, near)):
        threading.Thread(target=carry, args=ends, daemon=True).start()


def main():
    port, to_port = int(sys.argv[1]), int(sys.argv[2])
    door = socket.create_server(("127.0.0.1", port), backlog=64)
    while True:
        near, _ = door.accept()
        threading.Thread(target=connect, args=(near, to_port), daemon=True).start()


main()
