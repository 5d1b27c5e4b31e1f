"""moto's server in a process of its own, which knows one user and checks each signature. One for all tests of a process."""
import datetime
import functools
import hashlib
import hmac
import http.client
import json
import os
import re
import shutil
import subprocess
import time
import urllib.parse

import harness

from . import machine

REGION = "us-east-1"
POLICY = '{"Version": "2012-10-17", "Statement": [{"Effect": "Allow", "Action": "ec2:*", "Resource": "*"}]}'


def program():
    """Its program; skips or fails the test where it is not here."""
    for path in (os.environ.get("RHRUN_TEST_MOTO"), str(harness.ROOT / "build/moto/bin/moto_server"), shutil.which("moto_server")):
        if path and os.access(path, os.X_OK):
            return path
    return harness.missing("moto", "python3 -m venv build/moto && build/moto/bin/pip install moto flask flask-cors pyyaml")


running = []


def stop():
    while running:
        process = running.pop()
        process.kill()
        process.wait()
    server.cache_clear()


def answers(port):
    try:
        connection = http.client.HTTPConnection("127.0.0.1", port, timeout=harness.TIMEOUT)
        connection.request("POST", "/moto-api/reset")
        return json.load(connection.getresponse()) == {"status": "ok"}
    except (OSError, ValueError, http.client.HTTPException):
        return False
    finally:
        connection.close()


@functools.cache
def server():
    """HOST:PORT of it; it ends with the session (plugin.py), or with this process."""
    path = program()
    env = {**os.environ, "MOTO_EC2_ENABLE_INSTANCE_TYPE_VALIDATION": "true", "MOTO_ENABLE_KEYPAIR_VALIDATION": "true"}
    for _ in range(5):  # somebody else may take the port before it does
        port = harness.free_base(1) + 1
        command = ["setpriv", "--pdeathsig", "KILL", path, "-H", "127.0.0.1", "-p", str(port)]
        process = machine.starter.submit(subprocess.Popen, command, env=env, cwd="/", stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL,
                                         stderr=subprocess.DEVNULL).result()
        end = time.monotonic() + harness.TIMEOUT
        while process.poll() is None and time.monotonic() < end:
            if answers(port):
                running.append(process)
                return f"127.0.0.1:{port}"
            time.sleep(0.02)
        process.kill()
        process.wait()
    return harness.missing("moto", f"{path} does not start")


def send(method, path, body, headers):
    connection = http.client.HTTPConnection(server(), timeout=harness.TIMEOUT)
    try:
        connection.request(method, path, body=body, headers=headers)
        reply = connection.getresponse()
        return reply.status, reply.read()
    finally:
        connection.close()


def fresh():
    """Forgets all that was, and gives (access key, secret key) of a new user who may do all of EC2. From then on who does not sign
    is refused."""
    assert send("POST", "/moto-api/reset", b"", {})[0] == 200
    assert send("POST", "/moto-api/reset-auth", b"3", {})[0] == 200
    headers = {"Content-Type": "application/x-www-form-urlencoded", "Host": "iam.amazonaws.com",
               "Authorization": f"AWS4-HMAC-SHA256 Credential=none/20260101/{REGION}/iam/aws4_request, SignedHeaders=host, Signature=0"}
    for form in ({"Action": "CreateUser", "UserName": "rhrun"}, {"Action": "PutUserPolicy", "UserName": "rhrun", "PolicyName": "ec2", "PolicyDocument": POLICY},
                 {"Action": "CreateAccessKey", "UserName": "rhrun"}):
        status, text = send("POST", "/", urllib.parse.urlencode({**form, "Version": "2010-05-08"}).encode(), headers)
        assert status == 200, text
    return tuple(re.search(f"<{name}>(.*?)</{name}>", text.decode())[1] for name in ("AccessKeyId", "SecretAccessKey"))


def signed(host, path, body, access_key, secret_key, region=REGION):
    """The headers of a form, signed as AWS Signature Version 4 says."""
    now = datetime.datetime.now(datetime.timezone.utc).strftime("%Y%m%dT%H%M%SZ")
    headers = {"content-type": "application/x-www-form-urlencoded", "host": host, "x-amz-date": now}
    names = ";".join(sorted(headers))
    canonical = "\n".join(["POST", path, "", *(f"{n}:{headers[n]}" for n in sorted(headers)), "", names, hashlib.sha256(body).hexdigest()])
    scope = f"{now[:8]}/{region}/ec2/aws4_request"
    key = f"AWS4{secret_key}".encode()
    for part in (*scope.split("/"), f"AWS4-HMAC-SHA256\n{now}\n{scope}\n{hashlib.sha256(canonical.encode()).hexdigest()}"):
        key = hmac.new(key, part.encode(), hashlib.sha256).digest()
    headers["authorization"] = f"AWS4-HMAC-SHA256 Credential={access_key}/{scope}, SignedHeaders={names}, Signature={key.hex()}"
    return headers
