#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
#
# http_server.py DIR: servers on loopback that misbehave on request, for http_test.c.
#
# Makes a CA and a server certificate in DIR, then prints one line "NAME PORT" for each server and "ready". Ends when its standard input
# ends. HTTP/1.1 servers choose what to do by the path; the HTTP/2 one has no decompressor for header fields, so each behaviour has
# a port of its own.
import base64
import json
import os
import select
import socket
import ssl
import struct
import subprocess
import sys
import threading
import time


def openssl(*args):
    subprocess.run(("openssl",) + args, check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)


def make_certificates(d):
    key = ("-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes")
    for ca in "ca", "other":
        openssl("req", "-x509", *key, "-keyout", f"{d}/{ca}.key", "-out", f"{d}/{ca}.pem", "-subj", f"/CN={ca}", "-days", "4000",
                "-addext", "basicConstraints=critical,CA:TRUE")
    for ca, name, san in (("ca", "server", "DNS:localhost,DNS:api.example,IP:127.0.0.1"), ("ca", "elsewhere", "DNS:elsewhere.example"),
                          ("ca", "client", ""), ("other", "proxy", "IP:127.0.0.1")):
        with open(f"{d}/{name}.ext", "w") as f:
            f.write("basicConstraints=CA:FALSE\n" + (f"subjectAltName={san}\n" if san else ""))
        openssl("req", *key, "-keyout", f"{d}/{name}.key", "-out", f"{d}/{name}.csr", "-subj", f"/CN={name}")
        openssl("x509", "-req", "-in", f"{d}/{name}.csr", "-CA", f"{d}/{ca}.pem", "-CAkey", f"{d}/{ca}.key", "-CAcreateserial", "-days", "4000",
                "-extfile", f"{d}/{name}.ext", "-out", f"{d}/{name}.pem")


def tls(d, name, alpn, ask_client=False):
    ctx = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    ctx.load_cert_chain(f"{d}/{name}.pem", f"{d}/{name}.key")
    ctx.set_alpn_protocols([alpn])
    if ask_client:
        ctx.load_verify_locations(f"{d}/ca.pem")
        ctx.verify_mode = ssl.CERT_OPTIONAL
    return ctx


def serve(name, handle, ctx=None):
    listener = socket.create_server(("127.0.0.1", 0), backlog=64)
    print(name, listener.getsockname()[1], flush=True)

    def talk(conn):
        try:
            if ctx:
                conn = ctx.wrap_socket(conn, server_side=True)
            handle(conn)
        except OSError:
            pass
        finally:
            conn.close()

    def accept():
        while True:
            threading.Thread(target=talk, args=(listener.accept()[0],), daemon=True).start()

    threading.Thread(target=accept, daemon=True).start()


# --- HTTP/1.1 ---------------------------------------------------------------------------------------------------------------------

def read_request(conn, pending):
    while b"\r\n\r\n" not in pending:
        more = conn.recv(65536)
        if not more:
            return None, None, None, pending
        pending += more
    head, pending = pending.split(b"\r\n\r\n", 1)
    lines = head.decode("latin-1").split("\r\n")
    fields = {k.lower(): v.strip() for k, v in (x.split(":", 1) for x in lines[1:])}
    need = int(fields.get("content-length", "0"))
    while len(pending) < need:
        more = conn.recv(65536)
        if not more:
            return None, None, None, pending
        pending += more
    return lines[0], fields, pending[:need], pending[need:]


def answer(conn, status, body, extra=""):
    head = f"HTTP/1.1 {status} Some Words\r\nContent-Type: application/json; charset=utf-8\r\nContent-Length: {len(body)}\r\n{extra}\r\n"
    conn.sendall(head.encode() + body)


CHUNKED = b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nTransfer-Encoding: chunked\r\n\r\n"


def hold(conn):
    conn.settimeout(60)
    while conn.recv(4096):
        pass


def reset(conn):
    conn.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    raise OSError


def act(conn, line, fields, body):
    method, path, _ = line.split(" ")
    path = path.split("?")[0]
    if path == "/echo":
        cert = conn.getpeercert() if isinstance(conn, ssl.SSLSocket) else None
        who = cert["subject"][0][0][1] if cert else "-"
        text = f"{method} {len(body)} {fields.get('content-type', '-')} {fields.get('authorization', '-')} {fields.get('host')} {who}"
        answer(conn, 200, text.encode(), "Date: Sun, 06 Nov 1994 08:49:37 GMT\r\n")
    elif path == "/range":
        text = f"{fields.get('range', '-')} {fields.get('if-range', '-')} {fields.get('authorization', '-')}".encode()
        conn.sendall(b"HTTP/1.1 206 Partial\r\nETag: \"v1\"\r\nContent-Range: bytes 7-%d/%d\r\nContent-Length: %d\r\n\r\n%s"
                     % (6 + len(text), 7 + len(text), len(text), text))
    elif path == "/moved":
        answer(conn, 302, b"", "Location: https://elsewhere.example/x\r\n")
    elif path.startswith("/status/"):
        answer(conn, int(path[8:]), b'{"kind":"Status","apiVersion":"v1","metadata":{},"message":"told so"}', "Retry-After: 7\r\n")
    elif path == "/big":
        conn.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: 3000000\r\n\r\n")
        for _ in range(30):
            conn.sendall(b"x" * 100000)
    elif path == "/short":
        conn.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\n{\"kind\":")
        return False
    elif path == "/short-chunks":
        conn.sendall(CHUNKED + b"8\r\n{\"kind\":\r\n")
        return False
    elif path == "/bad-chunks":
        conn.sendall(CHUNKED + b"zz\r\nnot a length\r\n")
        return False
    elif path == "/garbage":
        conn.sendall(b"SSH-2.0-nothing you want\r\n")
        return False
    elif path == "/long-header":
        conn.sendall(b"HTTP/1.1 200 OK\r\n" + b"X: " + b"y" * 400000 + b"\r\n\r\n")
        return False
    elif path == "/begin":
        conn.sendall(CHUNKED + b"2\r\n{}\r\n")
        hold(conn)
    elif path == "/drip":
        conn.sendall(CHUNKED)
        for _ in range(12):
            conn.sendall(b"1\r\n.\r\n")
            time.sleep(0.25)
        conn.sendall(b"0\r\n\r\n")
    elif path == "/hang":
        hold(conn)
    elif path == "/reset":
        reset(conn)
    elif path == "/close":
        return False
    else:
        answer(conn, 404, b"404 page not found")
    return True


def http1(conn):
    pending = b""
    while True:
        line, fields, body, pending = read_request(conn, pending)
        if line is None or not act(conn, line, fields, body):
            return


def proxy(conn):
    line, fields, _, _ = read_request(conn, b"")
    method, target, _ = line.split(" ")
    if method != "CONNECT" or fields.get("proxy-authorization") != "Basic dTpwdw==":
        answer(conn, 407, b"no", 'Proxy-Authenticate: Basic realm="x"\r\n')
        return
    shown = isinstance(conn, ssl.SSLSocket) and conn.getpeercert()
    if "authorization" in fields or shown:  # neither token nor client certificate is for a proxy
        answer(conn, 400, b"leak")
        return
    host, port = target.rsplit(":", 1)
    there = socket.create_connection((host, int(port)))
    conn.sendall(b"HTTP/1.1 200 Connected\r\n\r\n")
    other = {conn: there, there: conn}
    while True:  # in one thread: a TLS connection is not for two
        for one in select.select([conn, there], [], [])[0]:
            data = one.recv(65536)  # a whole record, nothing stays inside
            if not data:
                return
            other[one].sendall(data)


# --- an API server to be joined -----------------------------------------------------------------------------------------------------

def jwt(subject, tail, **claims):
    part = lambda o: base64.urlsafe_b64encode(json.dumps(o).encode()).decode().rstrip("=")
    return ".".join((part({"alg": "none"}), part(dict(claims, sub=subject)), tail))


ACCOUNT = "system:serviceaccount:edge-a:limpet"
JOIN_TOKEN = jwt(ACCOUNT, "join", iat=int(time.time()), exp=int(time.time()) + 3600)


def cluster_info(d):
    ca = base64.b64encode(open(f"{d}/ca.pem", "rb").read()).decode()
    config = f"apiVersion: v1\nkind: Config\nclusters:\n- name: ''\n  cluster:\n    certificate-authority-data: {ca}\n    server: https://x\n"
    return json.dumps({"kind": "ConfigMap", "data": {"kubeconfig": config}}).encode()


# how: which way of showing the CA it knows. A token that is sent before the CA could be verified is a leak and shows as one.
def api(d, how):
    def handle(conn):
        pending = b""
        while True:
            line, fields, body, pending = read_request(conn, pending)
            if line is None:
                return
            method, path, _ = line.split(" ")
            token = fields.get("authorization", "")
            if method == "GET" and token:
                answer(conn, 500, b"leak")
            elif path == "/cacerts" and how == "k3s":
                answer(conn, 200, open(f"{d}/other.pem", "rb").read() + open(f"{d}/ca.pem", "rb").read())
            elif path == "/cacerts" and how == "garbage":
                answer(conn, 200, b"<html>")
            elif path.endswith("/configmaps/cluster-info") and how == "kubeadm":
                answer(conn, 200, cluster_info(d))
            elif method == "POST" and path == "/api/v1/namespaces/edge-a/serviceaccounts/limpet/token":
                if not token.startswith("Bearer ") or not token.endswith((".join", ".node")):
                    answer(conn, 401, b'{"kind":"Status","apiVersion":"v1","metadata":{},"message":"Unauthorized","reason":"Unauthorized"}')
                    continue
                wanted = json.loads(body)["spec"]["expirationSeconds"]
                now = int(time.time())
                new = jwt(ACCOUNT, "node", iat=now, exp=now + wanted, n=len(token))
                answer(conn, 201, json.dumps({"kind": "TokenRequest", "status": {"token": new}}).encode())
            else:
                answer(conn, 403, b'{"kind":"Status","apiVersion":"v1","metadata":{},"message":"no","reason":"Forbidden"}')
    return handle


# --- HTTP/2 -----------------------------------------------------------------------------------------------------------------------

def frame(kind, flags, stream, payload=b""):
    return struct.pack(">I", len(payload))[1:] + bytes([kind, flags]) + struct.pack(">I", stream) + payload


DATA, HEADERS, RST, SETTINGS, PING, GOAWAY = 0, 1, 3, 4, 6, 7
STATUS_200 = b"\x88"
greeted = 0  # connections so far


def exactly(conn, n):
    data = b""
    while len(data) < n:
        more = conn.recv(n - len(data))
        if not more:
            raise OSError
        data += more
    return data


# on_request(conn, stream, seen) answers one request; seen counts the connection's requests.
def http2(on_request):
    def handle(conn):
        global greeted
        greeted += 1
        exactly(conn, 24)
        conn.sendall(frame(SETTINGS, 0, 0))
        seen = 0
        while True:
            length, kind, flags, stream = struct.unpack(">IBBI", b"\0" + exactly(conn, 9))
            payload = exactly(conn, length)
            if kind == SETTINGS and not flags & 1:
                conn.sendall(frame(SETTINGS, 1, 0))
            elif kind == PING and not flags & 1:
                conn.sendall(frame(PING, 1, 0, payload))
            elif kind == HEADERS:
                seen += 1
                on_request(conn, stream, seen)
    return handle


def h2_hold(conn, stream, seen):
    text = f"{greeted}\n".encode()
    conn.sendall(frame(HEADERS, 4, stream, STATUS_200) + frame(DATA, 0, stream, text))


def h2_answer(conn, stream, seen):
    text = f"{greeted}\n".encode()
    conn.sendall(frame(HEADERS, 4, stream, STATUS_200) + frame(DATA, 1, stream, text))


def h2_cut(conn, stream, seen):
    h2_hold(conn, stream, seen)
    conn.sendall(frame(RST, 0, stream, struct.pack(">I", 2)))


# Three watches, then the server goes away under them. All that was sent arrives before the end does: a request whose answer has not
# begun would be sent again on a new connection, which is right and not what is tested here.
def h2_die(conn, stream, seen):
    h2_hold(conn, stream, seen)
    if seen == 3:
        conn.shutdown(socket.SHUT_WR)
        hold(conn)
        raise OSError


def main():
    d = sys.argv[1]
    os.makedirs(d, exist_ok=True)
    make_certificates(d)
    serve("http", http1)
    serve("https", http1, tls(d, "server", "http/1.1", ask_client=True))
    serve("elsewhere", http1, tls(d, "elsewhere", "http/1.1"))
    serve("proxy", proxy)
    serve("tlsproxy", proxy, tls(d, "proxy", "http/1.1", ask_client=True))
    serve("mute", hold)
    serve("reset", reset)
    for name, fn in ("hold", h2_hold), ("answer", h2_answer), ("cut", h2_cut), ("die", h2_die):
        serve("h2" + name, http2(fn), tls(d, "server", "h2"))
    for how in "k3s", "kubeadm", "garbage", "shy":
        serve(how, api(d, how), tls(d, "server", "http/1.1"))
    with open(f"{d}/chain.pem", "wb") as f:
        f.write(open(f"{d}/server.pem", "rb").read() + open(f"{d}/ca.pem", "rb").read())
    os.link(f"{d}/server.key", f"{d}/chain.key")
    serve("chain", api(d, "chain"), tls(d, "chain", "http/1.1"))
    with open(f"{d}/join-token", "w") as f:
        f.write(JOIN_TOKEN + "\n")
    closed = socket.create_server(("127.0.0.1", 0))
    print("closed", closed.getsockname()[1], flush=True)
    closed.close()
    print("ready", 0, flush=True)
    sys.stdin.read()


main()
