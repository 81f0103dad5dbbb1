#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""tamper: a plain-HTTP door to the test's API server that can lie, stall and break.

usage: tamper.py KUBECONFIG DIR

Listens on a free loopback port (written to DIR/port), hands requests on with their own credentials, and writes one line a request
to DIR/log: "METHOD PATH -> STATUS by MARK", where MARK is the beginning of the SHA-256 of the Authorization header, so that no token
is written down. DIR/rules is JSON, read anew for each request:
  [{"match": REGEX on "METHOD PATH", "bearer": MARK (absent = any), "times": N (absent = for ever), ACTION}]
with one ACTION:
  "answer": {"status": 429, "headers": {...}, "body": "..."}    instead of the server's answer
  "truncate": N          only the first N bytes of the body, then the connection is closed
  "replace": [OLD, NEW]  in the body (plain text)
  "stall": SECONDS       says nothing for so long, then goes on
  "close": true          closes the connection without a word
The first rule that matches is used.
"""
import hashlib
import http.client
import http.server
import json
import os
import re
import socketserver
import ssl
import sys
import threading
import time
import urllib.parse

lock = threading.Lock()
used = {}


def upstream(kubeconfig):
    """Address and CA of the kubeconfig's one cluster; it is our own, written by test/cluster, so two patterns will do."""
    import base64
    text = open(kubeconfig, encoding="utf-8").read()
    url = urllib.parse.urlsplit(re.search(r"server: *\"?([^\s\"]+)", text).group(1))
    data = re.search(r"certificate-authority-data: *\"?([A-Za-z0-9+/=]+)", text)
    name = re.search(r"certificate-authority: *\"?([^\s\"]+)", text)
    if data:
        context = ssl.create_default_context(cadata=base64.b64decode(data.group(1)).decode())
    else:
        context = ssl.create_default_context(cafile=os.path.join(os.path.dirname(kubeconfig), name.group(1)))
    return url.hostname, url.port, context


class Door(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def log_message(self, *args):
        pass

    def note(self, status):
        with lock, open(os.path.join(self.server.dir, "log"), "a", encoding="utf-8") as f:
            f.write(f"{self.command} {self.path} -> {status} by {self.mark()}\n")

    def mark(self):
        return hashlib.sha256(self.headers.get("Authorization", "").encode()).hexdigest()[:8]

    def rule(self):
        try:
            rules = json.load(open(os.path.join(self.server.dir, "rules"), encoding="utf-8"))
        except (OSError, ValueError):
            return {}
        for rule in rules:
            key = json.dumps(rule)
            with lock:
                if not re.search(rule["match"], f"{self.command} {self.path}"):
                    continue
                if rule.get("bearer", self.mark()) != self.mark():
                    continue
                if used.get(key, 0) >= rule.get("times", 1 << 60):
                    continue
                used[key] = used.get(key, 0) + 1
                return rule
        return {}

    def say(self, answer):
        body = answer.get("body", "").encode()
        self.note(answer["status"])
        self.send_response(answer["status"])
        for name, value in answer.get("headers", {"Content-Type": "application/json"}).items():
            self.send_header(name, value)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def hand_on(self, rule):
        length = int(self.headers.get("Content-Length") or 0)
        body = self.rfile.read(length) if length else None
        host, port, context = self.server.upstream
        conn = http.client.HTTPSConnection(host, port, context=context, timeout=900)
        headers = {k: v for k, v in self.headers.items() if k.lower() not in ("host", "connection", "accept-encoding")}
        conn.request(self.command, self.path, body, headers)
        answer = conn.getresponse()
        self.note(answer.status)
        self.send_response(answer.status)
        for name, value in answer.getheaders():
            if name.lower() not in ("content-length", "transfer-encoding", "connection"):
                self.send_header(name, value)
        self.send_header("Transfer-Encoding", "chunked")
        self.end_headers()
        self.copy(answer, rule)
        conn.close()

    def copy(self, answer, rule):
        left = rule.get("truncate", 1 << 60)
        while True:
            piece = answer.read1(65536)
            if "replace" in rule:
                piece = piece.replace(rule["replace"][0].encode(), rule["replace"][1].encode())
            piece = piece[:left]
            left -= len(piece)
            if piece:
                self.wfile.write(b"%x\r\n%s\r\n" % (len(piece), piece))
                self.wfile.flush()
            if left <= 0:
                self.close_connection = True
                return
            if not piece:
                self.wfile.write(b"0\r\n\r\n")
                return

    def any(self):
        rule = self.rule()
        try:
            if "stall" in rule:
                time.sleep(rule["stall"])
            if rule.get("close"):
                self.note("closed")
                self.close_connection = True
            elif "answer" in rule:
                length = int(self.headers.get("Content-Length") or 0)
                self.rfile.read(length)
                self.say(rule["answer"])
            else:
                self.hand_on(rule)
        except (OSError, http.client.HTTPException):
            self.close_connection = True

    do_GET = do_POST = do_PUT = do_PATCH = do_DELETE = any


class Server(socketserver.ThreadingMixIn, http.server.HTTPServer):
    daemon_threads = True


def main():
    server = Server(("127.0.0.1", 0), Door)
    server.dir = sys.argv[2]
    server.upstream = upstream(sys.argv[1])
    with open(os.path.join(server.dir, "port.new"), "w", encoding="utf-8") as f:
        f.write(str(server.server_address[1]))
    os.rename(os.path.join(server.dir, "port.new"), os.path.join(server.dir, "port"))
    server.serve_forever()


main()
