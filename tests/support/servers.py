"""Owns what tests and measurements over a real web server need: a certificate of its own, and nginx for as long as a block lasts."""

import contextlib
import os
import shutil
import socket
import subprocess
import time

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
