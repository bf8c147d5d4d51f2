"""A server of the tests' own that speaks S3 as far as contents need it, and looks at every signature.

    with S3Server.made() as server:
        environ |= server.environment  # AWS_ENDPOINT_URL and the key it knows
        ...
        server.faults = [Fault(status=500)]  # what becomes of the next requests

Objects are in `objects`, by "bucket/key"; what was begun in parts and not ended is in none of them.
"""

import contextlib
import hashlib
import hmac
import itertools
import re
import threading
from collections.abc import Iterator
from dataclasses import dataclass
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Final
from urllib.parse import parse_qsl, quote, unquote, urlsplit

BUCKET = "contents"
KEY_ID = "AKIATESTS"
SECRET = "c2VjcmV0IG9mIHRoZSB0ZXN0cw"


@dataclass(frozen=True)
class Fault:
    """What becomes of a request instead of an answer.

    `status`: it is refused so; 0: not at all. `after`: the connection is cut after so many bytes of the
    body were read, or, of a GET, sent. `waits`: nothing is done before this is set.
    """

    status: int = 0
    code: str = "InternalError"
    after: int | None = None
    waits: threading.Event | None = None
    method: str = ""


class S3Server:
    """A server on a port of 127.0.0.1."""

    def __init__(self) -> None:
        self.objects: dict[str, bytes] = {}
        self.parts: dict[str, dict[int, bytes]] = {}
        self.faults: list[Fault] = []
        self.asked: list[str] = []
        self._held: list[threading.Event] = []
        self._lock = threading.Lock()
        self._numbers = itertools.count(1)
        self._http = _Http(("127.0.0.1", 0), _Handler)
        self._http.s3 = self

    @classmethod
    @contextlib.contextmanager
    def made(cls) -> Iterator["S3Server"]:
        """Give a server that takes requests."""
        server = cls()
        thread = threading.Thread(target=server._http.serve_forever, args=(0.02,), daemon=True)
        thread.start()
        try:
            yield server
        finally:
            server.stop()
            thread.join()

    @property
    def url(self) -> str:
        """Return where it is."""
        return f"http://127.0.0.1:{self._http.server_address[1]}"

    @property
    def environment(self) -> dict[str, str]:
        """Return the variables with which it can be used."""
        return {
            "AWS_ENDPOINT_URL": self.url,
            "AWS_ACCESS_KEY_ID": KEY_ID,
            "AWS_SECRET_ACCESS_KEY": SECRET,
            "AWS_REGION": "us-east-1",
        }

    def stop(self) -> None:
        """Take no more requests, and let go of those that wait."""
        for each in self._held:
            each.set()
        self._http.shutdown()
        self._http.server_close()

    def fault(self, method: str) -> Fault | None:
        """Return what is to become of this request, None: nothing."""
        with self._lock:
            for place, each in enumerate(self.faults):
                if each.method in ("", method):
                    return self.faults.pop(place)
        return None

    def hold(self, event: threading.Event) -> None:
        """Wait for an event, or for the end."""
        self._held.append(event)
        event.wait()

    def begun(self) -> str:
        """Return the id of an upload in parts that begins."""
        id = f"upload{next(self._numbers)}"
        self.parts[id] = {}
        return id


class _Http(ThreadingHTTPServer):
    daemon_threads = True
    s3: S3Server


class _Refused(Exception):
    def __init__(self, status: int, code: str) -> None:
        self.status, self.code = status, code


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server: _Http

    def log_message(self, format: str, *args: object) -> None:
        """Say nothing."""

    def _serve(self) -> None:
        s3 = self.server.s3
        parts = urlsplit(self.path)
        self._query = dict(parse_qsl(parts.query, keep_blank_values=True))
        self._name = unquote(parts.path).strip("/")
        s3.asked.append(f"{self.command} {self.path}")
        fault = s3.fault(self.command)
        self._cut_at: int | None = None
        if fault is not None:
            if fault.waits is not None:
                s3.hold(fault.waits)
            if fault.after is not None and self.command != "GET":
                self.rfile.read(fault.after)
                self.close_connection = True
                return
            self._cut_at = fault.after
        body = self.rfile.read(int(self.headers.get("content-length") or 0))
        try:
            if fault is not None and fault.status:
                raise _Refused(fault.status, fault.code)
            self._require_signed(parts.path, parts.query, body)
            if self._name.split("/")[0] != BUCKET:
                raise _Refused(404, "NoSuchBucket")
            self._do(body)
        except _Refused as refused:
            said = f"<Error><Code>{refused.code}</Code><Message>it says so</Message></Error>"
            self._answer(refused.status, said.encode())

    do_GET = do_PUT = do_POST = do_DELETE = do_HEAD = _serve

    def _require_signed(self, path: str, query: str, body: bytes) -> None:
        """Refuse a request that is not signed, with the key, for just this method, path and body."""
        said = re.fullmatch(
            r"AWS4-HMAC-SHA256 Credential=([^/]+)/(\d+)/([^/]+)/s3/aws4_request, ?"
            r"SignedHeaders=([^,]+), ?Signature=([0-9a-f]{64})",
            self.headers.get("authorization", ""),
        )
        if said is None:
            raise _Refused(403, "AccessDenied")
        key, day, region, names, signature = said.groups()
        if key != KEY_ID:
            raise _Refused(403, "InvalidAccessKeyId")
        sent = self.headers.get("x-amz-content-sha256", "")
        if sent not in ("UNSIGNED-PAYLOAD", hashlib.sha256(body).hexdigest()):
            raise _Refused(400, "XAmzContentSHA256Mismatch")
        asked = sorted(parse_qsl(query, keep_blank_values=True))
        canonical = "\n".join(
            [
                self.command,
                path,
                "&".join(
                    f"{quote(name, safe='~')}={quote(value, safe='~')}" for name, value in asked
                ),
                *(f"{name}:{self.headers[name].strip()}" for name in names.split(";")),
                "",
                names,
                sent,
            ]
        )
        scope = f"{day}/{region}/s3/aws4_request"
        text = "\n".join(
            [
                "AWS4-HMAC-SHA256",
                self.headers["x-amz-date"],
                scope,
                hashlib.sha256(canonical.encode()).hexdigest(),
            ]
        )
        made = f"AWS4{SECRET}".encode()
        for step in (day, region, "s3", "aws4_request", text):
            made = hmac.digest(made, step.encode(), "sha256")
        if not hmac.compare_digest(made.hex(), signature):
            raise _Refused(403, "SignatureDoesNotMatch")

    def _do(self, body: bytes) -> None:
        objects, uploads = self.server.s3.objects, self.server.s3.parts
        upload = self._query.get("uploadId", "")
        match self.command:
            case "PUT" if upload:
                uploads[upload][int(self._query["partNumber"])] = body
                self._answer(200, etag=body)
            case "POST" if "uploads" in self._query:
                id = self.server.s3.begun()
                self._answer(200, _UPLOAD.format(id).encode())
            case "POST" if upload:
                whole = b"".join(part for _, part in sorted(uploads.pop(upload).items()))
                objects[self._name] = whole
                self._answer(200, _COMPLETED.encode())
            case "POST" if "delete" in self._query:
                keys = re.findall(r"<Key>([^<]+)</Key>", body.decode())
                for key in keys:
                    objects.pop(f"{BUCKET}/{key}", None)
                gone = "".join(f"<Deleted><Key>{key}</Key></Deleted>" for key in keys)
                self._answer(200, f"<DeleteResult>{gone}</DeleteResult>".encode())
            case "PUT":
                objects[self._name] = body
                self._answer(200, etag=body)
            case "DELETE" if upload:
                uploads.pop(upload, None)
                self._answer(204)
            case "DELETE":
                objects.pop(self._name, None)
                self._answer(204)
            case _ if self._name in objects:
                self._give(objects[self._name])
            case _:
                raise _Refused(404, "NoSuchKey")

    def _give(self, data: bytes) -> None:
        asked = re.fullmatch(r"bytes=(\d+)-(\d*)", self.headers.get("range", ""))
        if asked is None:
            self._answer(200, data, etag=data)
            return
        first, last = int(asked[1]), min(int(asked[2] or len(data)), len(data) - 1)
        place = f"bytes {first}-{last}/{len(data)}"
        self._answer(206, data[first : last + 1], etag=data, place=place)

    def _answer(
        self, status: int, body: bytes = b"", *, etag: bytes | None = None, place: str = ""
    ) -> None:
        self.send_response(status)
        if etag is not None:
            self.send_header("ETag", f'"{hashlib.sha256(etag).hexdigest()[:32]}"')
        self.send_header("Last-Modified", "Thu, 01 Jan 2026 00:00:00 GMT")
        self.send_header("Content-Length", str(len(body)))
        if place:
            self.send_header("Content-Range", place)
        self.end_headers()
        if self.command == "HEAD":
            return
        if self._cut_at is not None and self._cut_at < len(body):
            self.close_connection = True
            body = body[: self._cut_at]
        with contextlib.suppress(ConnectionError):
            self.wfile.write(body)


_UPLOAD: Final = (
    "<InitiateMultipartUploadResult><Bucket>b</Bucket><Key>k</Key><UploadId>{}</UploadId>"
    "</InitiateMultipartUploadResult>"
)
_COMPLETED: Final = (
    "<CompleteMultipartUploadResult><Location>l</Location><Bucket>b</Bucket><Key>k</Key>"
    '<ETag>"whole"</ETag></CompleteMultipartUploadResult>'
)
