#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
#
# tls_door.py CERTIFICATE KEY [SECONDS]: answers HTTPS on loopback as an API server answers GET /version, with that certificate, and with a
# Date that is off by so many seconds. Prints its port. Ends with its standard input.
import email.utils
import http.server
import ssl
import sys
import threading
import time


class Answer(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def date_time_string(self, timestamp=None):
        return email.utils.formatdate(time.time() + offset, usegmt=True)

    def do_GET(self):
        body = b'{"kind":"Status","apiVersion":"v1","code":401}'
        self.send_response(401)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *args):
        pass


offset = int(sys.argv[3]) if len(sys.argv) > 3 else 0
server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Answer)
context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
context.load_cert_chain(sys.argv[1], sys.argv[2])
server.socket = context.wrap_socket(server.socket, server_side=True)
threading.Thread(target=server.serve_forever, daemon=True).start()
print(server.server_address[1], flush=True)
sys.stdin.read()
