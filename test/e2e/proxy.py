#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
#
# proxy.py DIR: an HTTP proxy on loopback that knows CONNECT. What it does is read anew for each request from DIR/mode: "open"; "auth" (wants
# user "limpet" with the password in DIR/password); "refuse" (403); "mute" (takes the request and never answers); "slow" (answers after 2 s).
# "NAME:PORT" is connected to 127.0.0.1:PORT, whatever the name. Writes DIR/port, and a line to DIR/log for each request: its method and
# target, and whether it carried an Authorization header, which is not for a proxy.
import asyncio
import base64
import os
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
        head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1").split("\r\n")
    except (asyncio.IncompleteReadError, OSError):
        writer.close()
        return
    fields = {k.lower(): v.strip() for k, v in (x.split(":", 1) for x in head[1:] if ":" in x)}
    method, target, _ = head[0].split(" ")
    with open(os.path.join(home, "log"), "a", encoding="utf-8") as f:
        f.write(f"{method} {target}{' LEAK' if 'authorization' in fields else ''}\n")
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


async def main():
    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    with open(os.path.join(home, "port.new"), "w", encoding="utf-8") as f:
        f.write(str(server.sockets[0].getsockname()[1]))
    os.rename(os.path.join(home, "port.new"), os.path.join(home, "port"))
    await server.serve_forever()


asyncio.run(main())
