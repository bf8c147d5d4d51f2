"""Many inputs, one test: every row is tried, and the failure names each that does not hold."""

import inspect
import traceback
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from functools import wraps
from itertools import product
from pathlib import Path
from types import SimpleNamespace
from typing import Any, NamedTuple

import pytest
from _pytest.mark import ParameterSet

Test = Callable[..., Any]
_OF_PYTEST = ("_pytest", "pytest_asyncio")


class Row(NamedTuple):
    """One input: what it is called, and the arguments the test gets for it."""

    name: str
    given: dict[str, Any]


def table(
    arguments: str | Sequence[str],
    rows: Iterable[Any],
    *,
    ids: Callable[[Any], object] | Iterable[object] | None = None,
    parts: int = 1,
) -> Callable[[Test], Test]:
    """Return a decorator that tries a test with every row, written as for `pytest.mark.parametrize`.

    One on top of another tries every row of the one with every row of the other. For each try the
    fixtures a test has for itself alone are made anew, `tmp_path` and `monkeypatch` among them.

    Args:
        parts: among how many tests the rows are shared, where one would take a minute.
    """
    ours = rows_of(arguments, list(rows), ids)

    def over(test: Test) -> Test:
        tried: Test = getattr(test, "tried", test)
        tables: list[list[Row]] = [ours, *getattr(test, "tables", [])]
        part_of = max(parts, getattr(test, "parts", 1))
        every = [
            Row(
                ", ".join(row.name for row in each),
                {k: v for row in each for k, v in row.given.items()},
            )
            for each in product(*tables)
        ]

        if inspect.iscoroutinefunction(tried):

            @wraps(tried)
            async def tabled(request: pytest.FixtureRequest, **fixtures: Any) -> None:
                with _failures() as trying:
                    for number, row in _part(every, fixtures, part_of):
                        with trying(row), ExitStack() as stack:
                            anew = _Anew(request, fixtures, number, stack).all()
                            await tried(**anew, **row.given)

        else:

            @wraps(tried)
            def tabled(request: pytest.FixtureRequest, **fixtures: Any) -> None:
                with _failures() as trying:
                    for number, row in _part(every, fixtures, part_of):
                        with trying(row), ExitStack() as stack:
                            anew = _Anew(request, fixtures, number, stack).all()
                            tried(**anew, **row.given)

        signature = inspect.signature(tried)
        given = {name for row in every for name in row.given}
        wanted = [name for name in signature.parameters if name not in given]
        wanted += ["request", *(["part"] if part_of > 1 else [])]
        tabled.__signature__ = signature.replace(  # type: ignore[attr-defined]
            parameters=[inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY) for name in wanted]
        )
        vars(tabled).update(tried=tried, tables=tables, parts=part_of)
        marks = [mark for mark in getattr(test, "pytestmark", []) if mark.args[:1] != ("part",)]
        tabled.pytestmark = marks  # type: ignore[attr-defined]
        return pytest.mark.parametrize("part", range(part_of))(tabled) if part_of > 1 else tabled

    return over


def rows_of(arguments: str | Sequence[str], rows: list[Any], ids: Any) -> list[Row]:
    """Return the rows of a table, each with its name."""
    parted = arguments.split(",") if isinstance(arguments, str) else arguments
    names = [name.strip() for name in parted]
    assert rows, "a table without rows tries nothing"
    found = []
    for row in rows:
        parameters = ParameterSet.extract_from(row, force_tuple=len(names) == 1)
        given = dict(zip(names, parameters.values, strict=True))
        found.append(Row(str(parameters.id or _name(row)), given))
    if ids is None:
        return found
    said = [ids(row) for row in rows] if callable(ids) else list(ids)
    return [row._replace(name=str(name)) for row, name in zip(found, said, strict=True)]


def _name(value: object) -> str:
    match value:
        case tuple() | list() if value:
            return _name(value[0])
        case str() | bytes():
            return repr(value)
        case _:
            return str(getattr(value, "__name__", value))


def _part(rows: list[Row], fixtures: dict[str, Any], parts: int) -> Iterator[tuple[int, Row]]:
    part = fixtures.pop("part", 0)
    return ((number, row) for number, row in enumerate(rows) if number % parts == part)


class _Anew:
    """The fixtures of one try."""

    def __init__(
        self, request: pytest.FixtureRequest, shared: dict[str, Any], number: int, stack: ExitStack
    ) -> None:
        self._request, self._shared, self._stack = request, shared, stack
        self._made: dict[str, Any] = {}
        self._number = number

    def all(self) -> dict[str, Any]:
        return {name: self._of(name) for name in self._shared}

    def _of(self, name: str) -> Any:
        if name not in self._made:
            self._made[name] = self._make(name)
        return self._made[name]

    def _make(self, name: str) -> Any:
        if name == "tmp_path":
            folder: Path = self._request.getfixturevalue(name) / str(self._number)
            folder.mkdir()
            return folder
        if name == "monkeypatch":
            return self._stack.enter_context(pytest.MonkeyPatch.context())
        if name == "request":
            return self._request
        # pytest has no door for making a fixture once more within one test.
        definition = self._request._get_active_fixturedef(name)
        if definition.scope != "function" or definition.func.__module__.startswith(_OF_PYTEST):
            return self._request.getfixturevalue(name)
        given = {each: self._of(each) for each in definition.argnames}
        if "request" in given:
            callspec = getattr(self._request.node, "callspec", None)
            parameter = callspec.params.get(name) if callspec is not None else None
            given["request"] = SimpleNamespace(param=parameter, node=self._request.node)
        made = definition.func(**given)
        if not inspect.isgenerator(made):
            return made
        self._stack.callback(next, made, None)
        return next(made)


@contextmanager
def _failures() -> Iterator[Callable[[Row], Any]]:
    """Take down the rows that do not hold, and fail with all of them at the end."""
    failed: list[tuple[Row, BaseException]] = []
    count = 0

    @contextmanager
    def trying(row: Row) -> Iterator[None]:
        nonlocal count
        count += 1
        try:
            yield
        except (Exception, pytest.fail.Exception) as error:
            failed.append((row, error))

    yield trying
    if failed:
        told = "\n".join(_told(row, error) for row, error in failed)
        raise AssertionError(f"{len(failed)} of {count} rows do not hold:\n{told}") from failed[0][
            1
        ]


def _told(row: Row, error: BaseException) -> str:
    places = [
        place for place in traceback.extract_tb(error.__traceback__) if "/tests/" in place.filename
    ]
    where = f"{Path(places[-1].filename).name}:{places[-1].lineno}: " if places else ""
    what = "".join(traceback.format_exception_only(error)).strip()
    return f"\n* {row.name}\n  {row.given!r:.2000}\n  {where}{what}"
