"""Large contents in a bucket that speaks S3, named by their SHA-256. Everything here blocks.

An object is there whole or not at all: what was sent in parts is put together by one request at the end.
"""

import hashlib
import os
import re
from collections.abc import Collection
from datetime import timedelta
from typing import TYPE_CHECKING, Final

import obstore
from obstore.exceptions import BaseError, PermissionDeniedError, UnauthenticatedError
from obstore.store import S3Store

from midstream.language.errors import UserMistake, WorldTrouble
from midstream.store.refusals import contents_missing

if TYPE_CHECKING:
    from obstore.store import ClientConfig, RetryConfig

PATIENCE_S: Final = 30.0
"""How long a bucket may be away before whoever wants something of it is told."""

SILENCE_S: Final = 10.0
"""How long an answer, or more of it, is waited for before it is asked for again."""

_TOTAL_S: Final = 900.0
"""The longest that one request may take: of what is put, each has 5 MB; what is got comes in one."""


class Bucket:
    """A place in a bucket. Where that is, and the keys to it, are in the AWS_ variables of the environment.

    Args:
        place: s3://bucket, or s3://bucket/folder.
        folder: below that, where everything goes.

    Raises:
        UserMistake: it names no bucket.
        WorldTrouble: this machine trusts nobody, for want of certificates.
    """

    def __init__(self, place: str, folder: str) -> None:
        self._shown = place
        endpoint = os.environ.get("AWS_ENDPOINT_URL_S3") or os.environ.get("AWS_ENDPOINT_URL", "")
        client: ClientConfig = {
            "allow_http": endpoint.startswith("http://"),
            "connect_timeout": timedelta(seconds=min(5.0, SILENCE_S)),
            "read_timeout": timedelta(seconds=SILENCE_S),
            "timeout": timedelta(seconds=_TOTAL_S),
        }
        retry: RetryConfig = {
            "max_retries": 1000,
            "retry_timeout": timedelta(seconds=PATIENCE_S),
            "backoff": {
                "init_backoff": timedelta(milliseconds=100),
                "max_backoff": timedelta(seconds=2),
                "base": 2,
            },
        }
        try:
            self._store = S3Store.from_url(
                f"{place.rstrip('/')}/{folder}", client_options=client, retry_config=retry
            )
        except (BaseError, ValueError) as error:
            if "certificate" in str(error):
                raise WorldTrouble(
                    f"This machine has no certificates by which {place} could be trusted.",
                    hint="Install them (Debian: ca-certificates), or name a file of them in SSL_CERT_FILE.",
                ) from error
            raise UserMistake(
                f"{place} is no place in a bucket: {_first_line(error)}.",
                hint="Write it as s3://bucket/folder in MIDSTREAM_BLOBS.",
            ) from error

    def put(self, key: str, data: bytes) -> None:
        """Return once the bucket has all of it.

        Raises:
            WorldTrouble: it cannot be written there.
        """
        try:
            obstore.put(self._store, _path(key), data)
        except (BaseError, OSError) as error:
            raise self._trouble(error) from error

    def get(self, key: str) -> bytes:
        """Return the data of a whole key.

        Raises:
            ContentsMissing: it is not there, or not what was put there.
            WorldTrouble: it cannot be read now.
        """
        try:
            data = bytes(obstore.get(self._store, _path(key)).bytes())
        except (BaseError, OSError) as error:
            if not isinstance(error, FileNotFoundError) or "NoSuchBucket" in str(error):
                raise self._trouble(error) from error
            data = None
        if data is None or hashlib.sha256(data).hexdigest() != key:
            raise contents_missing(key, self._shown)
        return data

    def delete(self, keys: Collection[str]) -> None:
        """Delete what is there of some keys.

        Raises:
            WorldTrouble: some may be left.
        """
        try:
            obstore.delete(self._store, [_path(key) for key in keys])
        except FileNotFoundError as error:
            if "NoSuchBucket" in str(error):
                raise self._trouble(error) from error
        except (BaseError, OSError) as error:
            raise self._trouble(error) from error

    def _trouble(self, error: Exception) -> WorldTrouble:
        """Return an error a person can act on."""
        said = str(error)
        code = next(iter(re.findall(r"<Code>(\w+)</Code>", said)), "")
        if "NoSuchBucket" in said:
            return WorldTrouble(
                f"There is no bucket where the contents are kept: {self._shown}.",
                hint="Make it, or check MIDSTREAM_BLOBS, AWS_ENDPOINT_URL and AWS_REGION.",
            )
        if isinstance(error, PermissionDeniedError | UnauthenticatedError):
            return WorldTrouble(
                f"{self._shown} does not let midstream read and write contents: {code or 'refused'}.",
                hint="Check AWS_ACCESS_KEY_ID, AWS_SECRET_ACCESS_KEY and what they may do there.",
            )
        if re.search(r"/latest/api/token|security-credentials|AssumeRole|credential", said):
            return WorldTrouble(
                f"There is no key for {self._shown}, where contents are kept.",
                hint="Set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, or give this machine a role.",
            )
        return WorldTrouble(
            f"{self._shown}, where contents are kept, cannot be used: {code or _first_line(error)}.",
            hint="Look whether it can be reached from here (AWS_ENDPOINT_URL); then try again.",
        )


def _path(key: str) -> str:
    return f"{key[:2]}/{key}"


def _first_line(error: Exception) -> str:
    """Return the reason that was given, without where it was asked and how often."""
    line = str(error).strip().split("\n")[0]
    return line.rpartition(" - ")[2].strip(" .")
