"""Owns the servers of tests and measurements: one of Python that serves ranges and may misbehave, and nginx for as long as a block lasts, with
a certificate of its own."""

import contextlib
import http.server
import os
import shutil
import socket
import ssl
import subprocess
import threading
import time
import urllib.parse

PROBE = "bytes=0-0"  # whether a file is there, and the same

NGINX = shutil.which("nginx") or shutil.which("nginx", path="/usr/sbin:/usr/local/sbin")
CONFIGURATION = """daemon off;
user root;
worker_processes 1;
error_log {folder}/error.log;
pid {folder}/nginx.pid;
events {{ worker_connections 256; }}
http {{
  access_log off;
  default_type application/octet-stream;
  sendfile on;
  client_body_temp_path {folder}/body;
  proxy_temp_path {folder}/proxy;
  fastcgi_temp_path {folder}/fastcgi;
  uwsgi_temp_path {folder}/uwsgi;
  scgi_temp_path {folder}/scgi;
  server {{
    listen 127.0.0.1:{http};
    {secure}
    root {root};
  }}
}}
"""
SECURE = """listen 127.0.0.1:{https} ssl http2;
    ssl_certificate {certificate};
    ssl_certificate_key {certificate};"""


class RangeServer(http.server.ThreadingHTTPServer):
    """Serves files of a folder by range. `fault(handler, name, number, range)` may answer itself (True) or change the answer."""
    daemon_threads = True
    request_queue_size = 64

    def __init__(self, folder, certificate=None):
        super().__init__(("127.0.0.1", 0), Handler)
        if certificate:
            context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
            context.load_cert_chain(certificate)
            self.socket = context.wrap_socket(self.socket, server_side=True)
        self.folder, self.fault, self.seen, self.lock, self.etag = folder, None, [], threading.Lock(), '"one"'
        threading.Thread(target=self.serve_forever, kwargs={"poll_interval": 0.05}, daemon=True).start()
        self.url = f"{'https' if certificate else 'http'}://127.0.0.1:{self.server_address[1]}"

    def handle_error(self, request, client_address):
        pass  # connections that the client or a fault breaks off


class Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def log_message(self, *_):
        pass

    def answer(self, status, body=b"", **fields):
        self.send_response(status)
        for name, value in fields.items():
            self.send_header(name.replace("_", "-"), value)
        if "Content_Length" not in fields:
            self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)
        return True

    def is_read(self, name):
        return name.endswith(".safetensors") and self.headers.get("Range") != PROBE

    def range(self, size):
        text = self.headers.get("Range", "")
        if not text.startswith("bytes="):
            return None
        first, last = text[6:].split("-")
        return int(first), min(int(last), size - 1)

    def do_GET(self):
        server = self.server
        name = urllib.parse.unquote(urllib.parse.urlsplit(self.path).path).lstrip("/")
        with server.lock:
            number = sum(1 for seen, fields in server.seen if seen == name and fields.get("Range") != PROBE)
            server.seen.append((name, dict(self.headers)))
        if server.fault and server.fault(self, name, number):
            return
        self.file(os.path.join(server.folder, name))

    def file(self, path, **fields):
        if not os.path.isfile(path):
            return self.answer(404, b"no such file")
        size = os.path.getsize(path)
        fields.setdefault("ETag", self.server.etag)
        wanted = self.headers.get("If-Match")
        if wanted and wanted != fields["ETag"]:
            return self.answer(412)
        span = self.range(size)
        if span is not None and span[0] >= size:
            return self.answer(416, Content_Range=f"bytes */{size}")
        first, last = span or (0, size - 1)
        with open(path, "rb") as file:
            file.seek(first)
            content = file.read(last - first + 1)
        if span is None:
            return self.answer(200, content, **fields)
        return self.answer(206, content, Content_Range=f"bytes {first}-{last}/{size}", **fields)


def certificate(folder):
    """Path of a key and its own certificate for 127.0.0.1, in one file of `folder`; None where the command openssl is absent."""
    path = os.path.join(folder, "server.pem")
    command = ["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-subj", "/CN=loopback", "-addext",
               "subjectAltName=IP:127.0.0.1", "-days", "2", "-keyout", path + ".key", "-out", path + ".crt"]
    try:
        subprocess.run(command, check=True, capture_output=True)
    except FileNotFoundError:
        return None
    with open(path, "wb") as out:
        for part in (path + ".key", path + ".crt"):
            with open(part, "rb") as file:
                out.write(file.read())
    return path


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


@contextlib.contextmanager
def nginx(folder, root, pem=None):
    """nginx with files of `root` on loopback; `folder` is its own. Gives its addresses over http and, with `pem`, over https."""
    http, https = free_port(), free_port()
    os.makedirs(folder, exist_ok=True)
    path = os.path.join(folder, "nginx.conf")
    text = CONFIGURATION.format(folder=folder, root=root, http=http,
                                secure=SECURE.format(https=https, certificate=pem) if pem else "")
    with open(path, "w", encoding="utf-8") as file:
        file.write(text if os.geteuid() == 0 else text.replace("user root;\n", ""))
    server = subprocess.Popen([NGINX, "-e", os.path.join(folder, "error.log"), "-c", path, "-p", folder])
    try:
        for _ in range(200):
            with socket.socket() as probe:
                if probe.connect_ex(("127.0.0.1", http)) == 0:
                    break
            if server.poll() is not None:
                raise RuntimeError(f"nginx ended with {server.returncode}; {folder}/error.log says why")
            time.sleep(0.05)
        yield f"http://127.0.0.1:{http}", f"https://127.0.0.1:{https}" if pem else None
    finally:
        server.terminate()
        server.wait()
