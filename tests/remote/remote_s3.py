#!/usr/bin/env python3
"""Models in S3: remote_s3.py PROGRAM FOLDER.

Its imitation on loopback checks every signature by itself, lists in pages of two keys and serves ranges. The standard library is
enough; remote_moto.py tries another imitation, which is not ours."""

import hashlib
import hmac
import os
import urllib.parse
import xml.sax.saxutils

from remote_server import FOLDER, MODEL, SHARD, WEIGHTS, Server, decoded, end, expect, run, run_all

KEY_ID, SECRET, SESSION, REGION = "AKIDEXAMPLE", "wJalrXUtnFEMI/K7MDENG+bPxRfiCYEXAMPLEKEY", "session/token+1==", "eu-west-3"
BUCKET, PREFIX = "bucket", "models/a+b&c/"  # letters that queries and XML write otherwise
FOLDER_ADDRESS = f"s3://{BUCKET}/{PREFIX}"


def signature(secret, method, path, query, fields, names, scope):
    """Signature Version 4 as the API reference describes it."""
    digest = hashlib.sha256
    parameters = sorted(urllib.parse.parse_qsl(query, keep_blank_values=True))
    canonical_query = "&".join(f"{urllib.parse.quote(name, safe='-_.~')}={urllib.parse.quote(value, safe='-_.~')}"
                               for name, value in parameters)
    request = "\n".join([method, path, canonical_query, *[f"{name}:{fields[name].strip()}" for name in names], "", ";".join(names),
                         fields["x-amz-content-sha256"]])
    text = "\n".join(["AWS4-HMAC-SHA256", fields["x-amz-date"], scope, digest(request.encode()).hexdigest()])
    key = ("AWS4" + secret).encode()
    for part in scope.split("/"):
        key = hmac.new(key, part.encode(), digest).digest()
    return hmac.new(key, text.encode(), digest).hexdigest()


class S3:
    """One bucket of an imitation. `region` is where it is, `is_public` whether it wants no signature."""

    def __init__(self, is_public=False, region=REGION, session=None):
        self.server, self.is_public, self.region, self.session = Server(), is_public, region, session
        self.server.fault = self.answer
        self.listing = self.page
        self.objects = {PREFIX + name: os.path.join(MODEL, name) for name in os.listdir(MODEL)} | {
            "models/other.gguf": __file__, PREFIX: __file__, PREFIX + "below/x.gguf": __file__}
        self.environment = {"AWS_ENDPOINT_URL": self.server.url, "AWS_REGION": REGION, "AWS_ACCESS_KEY_ID": KEY_ID,
                            "AWS_SECRET_ACCESS_KEY": SECRET}

    def fault_of(self, handler):
        """Why a request is denied, or nothing."""
        fields = {name.lower(): value for name, value in handler.headers.items()}
        proof = fields.get("authorization", "")
        if not proof:
            return None if self.is_public else "AccessDenied"
        parts = dict(part.strip().split("=", 1) for part in proof.removeprefix("AWS4-HMAC-SHA256").split(","))
        key_id, scope = parts["Credential"].split("/", 1)
        names = parts["SignedHeaders"].split(";")
        url = urllib.parse.urlsplit(handler.path)
        if key_id != KEY_ID or fields.get("x-amz-security-token") != self.session or not {"host", "range"} & {*fields} <= {*names}:
            return "InvalidAccessKeyId"
        wanted = signature(SECRET, handler.command, url.path, url.query, fields, names, scope)
        return None if hmac.compare_digest(wanted, parts["Signature"]) else "SignatureDoesNotMatch"

    def answer(self, handler, _name, _number):
        scope = handler.headers.get("Authorization", "").partition("/")[2].split("/")
        if self.region != REGION and len(scope) > 1 and scope[1] != self.region:
            return handler.answer(301, b"<Error><Code>PermanentRedirect</Code></Error>", x_amz_bucket_region=self.region)
        if self.fault_of(handler):
            return handler.answer(403, f"<Error><Code>{self.fault_of(handler)}</Code></Error>".encode())
        url = urllib.parse.urlsplit(handler.path)
        query = dict(urllib.parse.parse_qsl(url.query, keep_blank_values=True))
        _, bucket, key = url.path.split("/", 2)
        if bucket != BUCKET:
            return handler.answer(404, b"<Error><Code>NoSuchBucket</Code></Error>")
        if not key:
            return handler.answer(200, self.listing(query).encode(), Content_Type="application/xml")
        path = self.objects.get(urllib.parse.unquote(key))
        return handler.answer(404) if path is None else handler.file(path) or True

    def page(self, query):
        """Of two entries, keys before a slash behind the prefix and the prefixes themselves."""
        assert query["list-type"] == "2" and query["encoding-type"] == "url" and query["delimiter"] == "/"
        entries = []
        for key in sorted(self.objects):
            if key.startswith(query["prefix"]):
                rest, slash, _ = key[len(query["prefix"]):].partition("/")
                entry = ("CommonPrefixes", "Prefix") if slash else ("Contents", "Key")
                entries.append((*entry, query["prefix"] + rest + slash))
        start = int(query.get("continuation-token", "0/=").partition("/")[0])
        body = "".join(f"<{outer}><{inner}>{xml.sax.saxutils.escape(urllib.parse.quote_plus(key, safe='/'))}</{inner}></{outer}>"
                       for outer, inner, key in entries[start:start + 2])
        more = start + 2 < len(entries)
        token = f"<NextContinuationToken>{start + 2}/=</NextContinuationToken>" if more else ""
        return (f'<?xml version="1.0" encoding="UTF-8"?>\n<ListBucketResult xmlns="http://s3.amazonaws.com/doc/2006-03-01/">'
                f"<IsTruncated>{str(more).lower()}</IsTruncated>{body}{token}</ListBucketResult>")


def without(environment, *names):
    return {key: value for key, value in environment.items() if key not in names}


def signed_requests():
    s3 = S3()
    done, weights = decoded(FOLDER_ADDRESS, "s3.f32", **s3.environment)
    expect("folder", done.returncode == 0 and weights == WEIGHTS, done.stderr)
    pages = sum(1 for name, _ in s3.server.seen if name == BUCKET + "/")
    expect("folder", pages >= 2, f"{pages} pages of the listing were asked for")
    done, weights = decoded(f"{FOLDER_ADDRESS}{SHARD}", "s3_file.f32", **s3.environment)
    expect("file", done.returncode == 0 and weights == WEIGHTS, done.stderr)
    out = os.path.join(FOLDER, "s3.h5")
    done = run("measure", FOLDER_ADDRESS, "-o", out, "--backend", "cpu", **s3.environment)
    expect("measure", done.returncode == 0, done.stderr)
    with open(out, "rb") as file:
        content = file.read()
    expect("secret", SECRET.encode() not in content and SECRET not in done.stderr + done.stdout, "the secret is shown")
    for address, code, text in ((f"s3://{BUCKET}/none/", 66, "E-FOLDER-EMPTY"), (f"s3://{BUCKET}/none.gguf", 66, "E-FILE-MISSING"),
                                ("s3://other/none/", 66, "E-FILE-MISSING")):
        done = run("inspect", address, **s3.environment)
        expect(address, done.returncode == code and text in done.stderr, f"{done.returncode}: {done.stderr}")


def other_credentials():
    path = os.path.join(FOLDER, "credentials")
    with open(path, "w", encoding="utf-8") as file:
        file.write(f"[default]\naws_access_key_id = other\naws_secret_access_key = other\n\n[ci]\naws_access_key_id = {KEY_ID}\n"
                   f"aws_secret_access_key = {SECRET}\naws_session_token = {SESSION}\nregion = {REGION}\n")
    s3 = S3(session=SESSION)
    base = without(s3.environment, "AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_REGION")
    profile = base | {"AWS_SHARED_CREDENTIALS_FILE": path, "AWS_PROFILE": "ci"}
    done, weights = decoded(FOLDER_ADDRESS, "profile.f32", **profile)
    expect("profile", done.returncode == 0 and weights == WEIGHTS, done.stderr)
    done = run("inspect", FOLDER_ADDRESS, **(profile | {"AWS_PROFILE": "none"}))
    expect("no profile", done.returncode == 78 and "E-S3-CREDENTIALS" in done.stderr, done.stderr)
    wrong = S3().environment | {"AWS_SECRET_ACCESS_KEY": "not" + SECRET}
    done = run("inspect", FOLDER_ADDRESS, **wrong)
    expect("wrong secret", done.returncode == 69 and "E-REMOTE-DENIED" in done.stderr and SECRET not in done.stderr, done.stderr)
    done = run("inspect", FOLDER_ADDRESS, **base)
    expect("no keys", done.returncode == 69 and "AWS_ACCESS_KEY_ID" in done.stderr, done.stderr)


def unsigned_requests():
    s3 = S3(is_public=True)
    done, weights = decoded(FOLDER_ADDRESS, "public.f32", **(s3.environment | {"AWS_NO_SIGN_REQUEST": "1"}))
    expect("public", done.returncode == 0 and weights == WEIGHTS, done.stderr)
    expect("public", not any("Authorization" in fields for _, fields in s3.server.seen), "a request was signed")


def the_region_is_named():
    s3 = S3(region="ap-southeast-2")
    done = run("inspect", FOLDER_ADDRESS, **s3.environment)
    expect("region", done.returncode == 69 and "E-S3-REGION" in done.stderr and "AWS_REGION=ap-southeast-2" in done.stderr,
           done.stderr)


def nobody_else_gets_a_signature():
    elsewhere, s3 = Server(), S3()
    inner = s3.answer
    s3.server.fault = lambda handler, name, number: (
        handler.answer(307, Location=f"{elsewhere.url}/{SHARD}") if name.endswith(SHARD) else inner(handler, name, number))
    done, weights = decoded(f"{FOLDER_ADDRESS}{SHARD}", "elsewhere.f32", **s3.environment)
    expect("elsewhere", done.returncode == 0 and weights == WEIGHTS, done.stderr)
    shown = [fields for _, fields in elsewhere.seen if "Authorization" in fields or "x-amz-security-token" in fields]
    expect("elsewhere", elsewhere.seen and not shown, "another host got a signature")


def listings_that_lie():
    answers = {"no XML": "hello", "an error": "<Error><Code>InternalError</Code></Error>",
               "an entity": '<!DOCTYPE a [<!ENTITY b "c">]><ListBucketResult/>',
               "no end": "<ListBucketResult><IsTruncated>true</IsTruncated><NextContinuationToken>same</NextContinuationToken>"
                         "</ListBucketResult>"}
    for case, text in answers.items():
        s3 = S3()
        s3.listing = lambda query, text=text: text
        done = run("inspect", FOLDER_ADDRESS, **s3.environment)
        expect(case, done.returncode == 69 and "E-REMOTE-ANSWER" in done.stderr, f"{done.returncode}: {done.stderr}")


if __name__ == "__main__":
    run_all([(signed_requests,), (other_credentials,), (unsigned_requests,), (the_region_is_named,),
             (nobody_else_gets_a_signature,), (listings_that_lie,)])
    end()
