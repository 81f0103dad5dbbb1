#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
#
# proxy.py DIR [CERTIFICATE KEY]: an HTTP proxy on loopback that knows CONNECT, over TLS where it has a certificate; then it asks each client for
# one, too. What it does is read anew for each request from DIR/mode: "open"; "auth" (wants
# user "limpet" with the password in DIR/password); "refuse" (403); "mute" (takes the request and never answers); "slow" (answers after 2 s).
# "NAME:PORT" is connected to 127.0.0.1:PORT, whatever the name. Writes DIR/port, and a line to DIR/log for each request: its method and
# target, and LEAK where it was shown an Authorization header or a client certificate, which are not for a proxy.
import asyncio
import base64
import os
import ssl
import sys

home = sys.argv[1]


def read(name):
    with open(os.path.join(home, name), encoding="utf-8") as f:
        return f.read().strip()


async def copy(reader, writer):
    try:
        while data := await reader.read(65536):
            writer.write(data)
            await writer.drain()
    except OSError:
        pass
    finally:
        writer.close()


def refusal(mode, fields):
    if mode == "refuse":
        return b"HTTP/1.1 403 Forbidden\r\nContent-Length: 0\r\n\r\n"
    wanted = "Basic " + base64.b64encode(("limpet:" + read("password")).encode()).decode()
    if mode == "auth" and fields.get("proxy-authorization") != wanted:
        return b'HTTP/1.1 407 Proxy Authentication Required\r\nProxy-Authenticate: Basic realm="test"\r\nContent-Length: 0\r\n\r\n'
    return None


async def serve(reader, writer):
    try:
        first = await reader.readexactly(1)
        if first == b"\x16":  # TLS, to one that does not speak it
            writer.write(b"HTTP/1.1 400 Bad Request\r\n\r\n")
            writer.close()
            return
        head = (first + await reader.readuntil(b"\r\n\r\n")).decode("latin-1").split("\r\n")
    except (asyncio.IncompleteReadError, OSError):
        writer.close()
        return
    fields = {k.lower(): v.strip() for k, v in (x.split(":", 1) for x in head[1:] if ":" in x)}
    method, target, _ = head[0].split(" ")
    shown = writer.get_extra_info("peercert") or "authorization" in fields
    with open(os.path.join(home, "log"), "a", encoding="utf-8") as f:
        f.write(f"{method} {target}{' LEAK' if shown else ''}\n")
    mode = read("mode")
    if mode == "mute":
        await reader.read()
        writer.close()
        return
    if mode == "slow":
        await asyncio.sleep(2)
    no = refusal(mode, fields)
    if no or method != "CONNECT":
        writer.write(no or b"HTTP/1.1 405 Method Not Allowed\r\nContent-Length: 0\r\n\r\n")
        await writer.drain()
        writer.close()
        return
    try:
        there, back = await asyncio.open_connection("127.0.0.1", int(target.rsplit(":", 1)[1]))
    except OSError:
        writer.write(b"HTTP/1.1 502 Bad Gateway\r\nContent-Length: 0\r\n\r\n")
        writer.close()
        return
    writer.write(b"HTTP/1.1 200 Connected\r\n\r\n")
    await asyncio.gather(copy(reader, back), copy(there, writer))


def tls(certificate, key):
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate, key)
    context.load_verify_locations(certificate)
    context.verify_mode = ssl.CERT_OPTIONAL
    return context


async def main():
    server = await asyncio.start_server(serve, "127.0.0.1", 0, ssl=tls(*sys.argv[2:4]) if len(sys.argv) > 3 else None)
    with open(os.path.join(home, "port.new"), "w", encoding="utf-8") as f:
        f.write(str(server.sockets[0].getsockname()[1]))
    os.rename(os.path.join(home, "port.new"), os.path.join(home, "port"))
    await server.serve_forever()


asyncio.run(main())
