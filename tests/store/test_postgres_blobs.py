"""Large contents of a journal in PostgreSQL are kept in a folder or a bucket, whole or not at all."""

import asyncio
import hashlib
import os
import threading
from collections.abc import AsyncIterator, Callable, Iterator
from pathlib import Path

import pytest
from deadline import DEADLINE_S, wait_until
from support.s3_server import BUCKET, Fault, S3Server
from support.store_contracts import StoreContract

from midstream.language.errors import ContentsMissing, MidstreamError, UserMistake, WorldTrouble
from midstream.runtime.storage import Store

pytest.importorskip("psycopg")
pytest.importorskip("obstore")

from test_postgres_contracts import TestPostgresStore as InDatabase

from midstream.store import bucket
from midstream.store.postgres import store as postgres_store
from midstream.store.postgres.blobs import LARGE
from midstream.store.postgres.store import PostgresStore

BIG = bytes(range(256)) * (LARGE // 256)
SMALL = BIG[:-1]
HUGE = os.urandom(12_000_000)
"""So large that it goes to a bucket in parts."""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    made = tmp_path / "contents"
    made.mkdir()
    return made


@pytest.fixture
def s3(monkeypatch: pytest.MonkeyPatch) -> Iterator[S3Server]:
    with S3Server.made() as server:
        for name, value in server.environment.items():
            monkeypatch.setenv(name, value)
        # It would not begin without the certificates of the machine, though nothing here needs one.
        monkeypatch.delenv("SSL_CERT_DIR")
        yield server


@pytest.fixture
def gives_up(monkeypatch: pytest.MonkeyPatch) -> None:
    """Ask a bucket that fails no more than once or twice; how long an answer may take stays as it is."""
    monkeypatch.setattr(bucket, "PATIENCE_S", 0.1)


class TestContentsInAFolder(InDatabase):
    """The whole contract, with all contents in a folder."""

    @pytest.fixture(autouse=True)
    def everything_is_large(self, folder: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
        monkeypatch.setattr(postgres_store, "LARGE", 0)
        self.blobs = str(folder)
        yield
        # What a test put is there, and nothing else.
        for path in filter(Path.is_file, folder.rglob("*")):
            assert hashlib.sha256(path.read_bytes()).hexdigest() == path.name


class TestContentsInABucket:
    """What the contract says of contents, with all of them in a bucket."""

    opened = InDatabase.opened
    store = InDatabase.store
    another = InDatabase.another
    other = InDatabase.other
    test_put = StoreContract.test_what_is_put_in_the_blob_store_is_there
    test_put_twice = StoreContract.test_what_is_put_twice_has_one_key
    test_beginnings = StoreContract.test_a_key_is_known_by_its_beginning
    test_missing = StoreContract.test_what_is_not_in_the_blob_store_is_trouble

    @pytest.fixture(autouse=True)
    def everything_is_large(self, s3: S3Server, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(postgres_store, "LARGE", 0)
        self.blobs = f"s3://{BUCKET}/team"


async def opened_at(address: str, place: str) -> PostgresStore:
    return await asyncio.to_thread(lambda: PostgresStore.opened(address, blobs=place))


@pytest.fixture
async def stores(database: Callable[[], str]) -> AsyncIterator["Stores"]:
    made = Stores(database())
    async with asyncio.timeout(DEADLINE_S):
        yield made
        for store in made.opened:
            await store.aclose()


class Stores:
    """Stores of one database, each with large contents at a place of its own."""

    def __init__(self, address: str) -> None:
        self.address = address
        self.opened: list[PostgresStore] = []

    async def at(self, place: object = "") -> PostgresStore:
        self.opened.append(await opened_at(self.address, str(place)))
        return self.opened[-1]


def files(folder: Path) -> list[Path]:
    return [path for path in folder.rglob("*") if path.is_file()]


async def trouble(store: Store, key: str) -> MidstreamError:
    with pytest.raises(MidstreamError) as caught:
        await store.get(key)
    return caught.value


async def test_small_contents_stay_in_the_database(stores: Stores, folder: Path) -> None:
    store = await stores.at(folder)
    small, big = await store.put(SMALL), await store.put(BIG)

    assert [path.name for path in files(folder)] == [big]
    plain = await stores.at()
    assert await plain.get(small) == SMALL
    # Which others could not find where they are is no loss, and says what to set.
    said = await trouble(plain, big)
    assert not isinstance(said, ContentsMissing)
    assert "MIDSTREAM_BLOBS" in said.hint
    assert await store.get(big[:12]) == BIG


@pytest.mark.parametrize("kind", ["folder", "bucket"])
async def test_what_was_put_before_a_place_was_named_is_read_and_stays(
    kind: str, stores: Stores, folder: Path, s3: S3Server
) -> None:
    plain = await stores.at()
    before = await plain.put(BIG)
    store = await stores.at(folder if kind == "folder" else f"s3://{BUCKET}")
    after = await store.put(BIG[::-1])

    assert [await store.get(key) for key in (before, after)] == [BIG, BIG[::-1]]
    assert await store.put(BIG) == before
    there = [path.name for path in files(folder)] + [key.rpartition("/")[2] for key in s3.objects]
    assert there == [after]


async def test_put_again_without_a_place_they_are_in_the_database(
    stores: Stores, folder: Path
) -> None:
    key = await (await stores.at(folder)).put(BIG)
    plain = await stores.at()
    assert await plain.put(BIG) == key
    assert await plain.get(key) == BIG


@pytest.mark.parametrize("how", ["gone", "cut short"])
@pytest.mark.parametrize("kind", ["folder", "bucket"])
async def test_what_is_gone_or_damaged_is_missing_until_it_is_put_again(
    how: str, kind: str, stores: Stores, folder: Path, s3: S3Server
) -> None:
    store = await stores.at(folder if kind == "folder" else f"s3://{BUCKET}/x")
    key = await store.put(BIG)
    if kind == "folder":
        [path] = files(folder)
        path.unlink() if how == "gone" else path.write_bytes(BIG[:-1])
    else:
        [name] = s3.objects
        s3.objects.pop(name) if how == "gone" else s3.objects.update({name: BIG[:-1]})

    assert isinstance(await trouble(store, key), ContentsMissing)
    assert await store.put(BIG) == key
    assert await store.get(key) == BIG


async def test_journals_that_share_a_place_have_their_own_contents(
    database: Callable[[], str], folder: Path
) -> None:
    one, other = [await opened_at(database(), str(folder)) for _ in range(2)]
    key = await one.put(BIG)
    await other.put(BIG)

    assert sorted(path.name for path in files(folder)) == [key, key]
    assert isinstance(await trouble(other, hashlib.sha256(HUGE).hexdigest()), ContentsMissing)
    for store in (one, other):
        await store.aclose()


# --- a folder ---------------------------------------------------------------------------------------


def unmounted(folder: Path) -> Path:
    """Take a disk away, which leaves an empty folder; return where it is now."""
    away = folder.rename(folder.with_name("away"))
    folder.mkdir()
    return away


def mounted(away: Path, folder: Path) -> None:
    folder.rmdir()
    away.rename(folder)


async def test_a_folder_that_is_not_there_is_said_and_nothing_is_taken_for_lost(
    stores: Stores, folder: Path
) -> None:
    with pytest.raises(WorldTrouble, match="cannot be kept in"):
        await stores.at(folder / "nowhere")
    store = await stores.at(folder)
    key = await store.put(BIG)
    away = unmounted(folder)
    late = await stores.at(folder)

    for each in (store, late):
        said = await trouble(each, key)
        assert not isinstance(said, ContentsMissing)
        assert "Mount" in said.hint
        with pytest.raises(WorldTrouble, match="not there"):
            await each.put(BIG[::-1])
    assert files(folder) == []
    mounted(away, folder)
    assert await late.get(key) == BIG


async def test_what_another_machine_is_writing_is_left_alone(stores: Stores, folder: Path) -> None:
    await (await stores.at(folder)).put(BIG)
    draft = files(folder)[0].parents[1] / "of-another.1.tmp"
    draft.write_bytes(BIG[:100])
    store = await stores.at(folder)
    await store.put(BIG[::-1])

    assert draft.exists()
    assert isinstance(await trouble(store, hashlib.sha256(BIG[:100]).hexdigest()), ContentsMissing)


# --- a bucket ---------------------------------------------------------------------------------------


def hiccups(how: str) -> list[Fault]:
    match how:
        case "refused":
            return [Fault(status=500), Fault(status=503, code="SlowDown")]
        case "cut":
            return [Fault(after=1000), Fault(after=0)]
        case _:
            return [Fault(waits=threading.Event())]


@pytest.mark.parametrize("how", ["refused", "cut", "silent"])
async def test_a_bucket_that_fails_for_a_moment_is_asked_again(
    how: str, stores: Stores, s3: S3Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    if how == "silent":
        # Below the patience by so much that a busy machine may be slow, too.
        monkeypatch.setattr(bucket, "SILENCE_S", 1.0)
    store = await stores.at(f"s3://{BUCKET}")
    s3.faults = hiccups(how)
    key = await store.put(BIG)
    s3.faults = hiccups(how)

    assert await store.get(key) == BIG
    assert s3.faults == []


@pytest.mark.parametrize("fault", [Fault(status=500), Fault(after=10)], ids=["refused", "cut"])
@pytest.mark.usefixtures("gives_up")
async def test_a_bucket_that_is_away_is_said_and_its_contents_are_not_lost(
    fault: Fault, stores: Stores, s3: S3Server
) -> None:
    store = await stores.at(f"s3://{BUCKET}/team")
    key = await store.put(BIG)
    s3.faults = [fault] * 1000
    said = await trouble(store, key)

    assert not isinstance(said, ContentsMissing)
    assert f"s3://{BUCKET}/team" in said.what
    assert "AWS_ENDPOINT_URL" in said.hint
    with pytest.raises(WorldTrouble, match="cannot be used"):
        await store.put(BIG[::-1])
    s3.faults = []
    assert isinstance(await trouble(store, hashlib.sha256(BIG[::-1]).hexdigest()), ContentsMissing)
    assert await store.put(BIG[::-1])
    assert await store.get(key) == BIG


@pytest.mark.parametrize(
    ("setting", "value", "said"),
    [
        ("AWS_SECRET_ACCESS_KEY", "another", "SignatureDoesNotMatch"),
        ("AWS_ACCESS_KEY_ID", "another", "InvalidAccessKeyId"),
        ("AWS_ACCESS_KEY_ID", None, "There is no key"),
        ("AWS_ENDPOINT_URL", "http://127.0.0.1:1", "cannot be used"),
        ("MIDSTREAM_BLOBS", "s3://elsewhere", "There is no bucket"),
    ],
)
@pytest.mark.usefixtures("gives_up")
async def test_what_has_to_be_set_is_said(
    setting: str,
    value: str | None,
    said: str,
    stores: Stores,
    s3: S3Server,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("AWS_METADATA_ENDPOINT", "http://127.0.0.1:1")
    if value is None:
        monkeypatch.delenv(setting)
        monkeypatch.delenv("AWS_SECRET_ACCESS_KEY")
    else:
        monkeypatch.setenv(setting, value)
    place = value if setting == "MIDSTREAM_BLOBS" else f"s3://{BUCKET}"
    store = await stores.at(place)
    for doing in (store.put(BIG), store.try_blobs()):
        with pytest.raises(WorldTrouble) as caught:
            await doing
        assert said in caught.value.what
        assert not isinstance(caught.value, ContentsMissing)
    assert s3.objects == {}


async def test_large_contents_come_in_parts_and_are_there_once_all_are(
    stores: Stores, s3: S3Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = await stores.at(f"s3://{BUCKET}")
    held = threading.Event()
    s3.faults = [Fault(method="PUT", waits=held)]
    putting = asyncio.ensure_future(store.put(HUGE))
    await asyncio.to_thread(wait_until, lambda: any(s3.parts.values()), "a part has come")
    # Whoever is killed here leaves parts of which nothing can be read.
    assert s3.objects == {}
    assert isinstance(await trouble(store, hashlib.sha256(HUGE).hexdigest()), ContentsMissing)
    held.set()
    key = await putting

    assert await store.get(key) == HUGE
    assert await asyncio.gather(*(store.put(HUGE) for _ in range(3))) == [key] * 3
    assert await store.get(key) == HUGE


async def test_a_machine_without_certificates_is_told_so(stores: Stores) -> None:
    with pytest.raises(WorldTrouble, match="no certificates"):
        await stores.at(f"s3://{BUCKET}")


@pytest.mark.usefixtures("s3")
async def test_a_place_that_is_none_is_refused(stores: Stores) -> None:
    for place in ("gs://bucket", "s3://"):
        with pytest.raises(UserMistake, match="no place"):
            await stores.at(place)
