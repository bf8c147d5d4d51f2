"""Facts and runs as bytes: what is written is read again, and nothing else is."""

from functools import partial
from typing import Any, get_args
from unittest.mock import patch

import msgspec
import pytest
from decide_kit import define, flow, state
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from msgspec.structs import replace
from test_core_invariants import RESUMES, RICH, told

from midstream.core import append_only
from midstream.core import events as e
from midstream.core.append_only import PAGE, Log, is_read, logged
from midstream.core.codec import (
    FIRST,
    Undecodable,
    chained,
    decode_fact,
    decode_run,
    encode_fact,
    encode_run,
)
from midstream.core.conversation import Message, ToolCall
from midstream.core.costs import costs
from midstream.core.data_edits import Assign, Remove, Splice
from midstream.core.fold.apply import apply
from midstream.core.question import Question
from midstream.core.run import Inbox, InputRecord, Run, RunUsage
from midstream.language.plan import plan_of
from midstream.language.spec import Budget, Definition
from midstream.views.difference import first_difference

KINDS: tuple[type[e.Fact], ...] = get_args(e.AnyFact)

# What a journal meets: any Unicode but half a surrogate pair, any number that is one.
words = st.text(st.characters(exclude_categories=["Cs"]), max_size=8)
json_values = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**64), 2**64)
    | st.floats(allow_nan=False, allow_infinity=False)
    | words,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(words, inner, max_size=3),
    max_leaves=8,
)
objects = st.dictionaries(words, json_values, max_size=3)
definitions = st.builds(
    Definition,
    workflow=st.just(RICH),
    roles=st.just(define(RICH).roles),
    tools=st.just(define(RICH).tools),
    digest=words,
    script=st.none() | words,
    found_as=words,
    kind=st.sampled_from(["workflow", "chat"]),
)
paths = st.tuples(words, st.integers(0, 9) | words)
edits = st.lists(
    st.builds(Splice, path=paths, put=words | st.lists(json_values, max_size=2))
    | st.builds(Assign, path=paths, value=json_values)
    | st.builds(Remove, path=paths),
    max_size=3,
).map(tuple)
SPECIAL: dict[tuple[str, str], st.SearchStrategy[Any]] = {
    ("RunFinished", "output"): json_values,
    ("RunStarted", "input"): json_values,
    ("RunStarted", "variables"): objects,
    ("HandlerRan", "changed"): objects,
    ("HandlerRan", "variables"): objects,
    ("HandlerRan", "edits"): edits,
    ("ToolCalled", "arguments"): objects,
    ("CallEdited", "arguments"): objects,
    ("HookRan", "arguments"): st.none() | objects,
    ("QuestionAsked", "schema"): st.none() | objects,
    ("QuestionAnswered", "answer"): json_values,
    ("BranchStarted", "input"): json_values,
    ("BranchStarted", "variables"): objects,
    ("BranchFinished", "output"): json_values,
    ("WorkDone", "value"): json_values,
    ("WorkDone", "changed"): objects,
}
st.register_type_strategy(Definition, definitions)
st.register_type_strategy(ToolCall, st.builds(ToolCall, id=words, name=words, arguments=objects))
FLOATS = st.floats(allow_nan=False, allow_infinity=False)
st.register_type_strategy(
    Budget, st.builds(Budget, usd=st.none() | FLOATS, minutes=st.none() | FLOATS)
)


def facts_of(kind: type[e.Fact]) -> st.SearchStrategy[Any]:
    """Return facts of one kind, every field drawn from its own type."""
    fields: dict[str, st.SearchStrategy[Any]] = {}
    for field in msgspec.structs.fields(kind):
        special = SPECIAL.get((kind.__name__, field.name))
        fields[field.name] = _of_type(field.type) if special is None else special
    return st.builds(kind, **fields)


def _of_type(kind: Any) -> st.SearchStrategy[Any]:
    args = get_args(kind)
    if kind is str:
        return words
    if kind is float:
        return FLOATS
    if args and type(None) in args:
        return st.none() | st.one_of(*[_of_type(arg) for arg in args if arg is not type(None)])
    if getattr(kind, "__origin__", None) is tuple:
        return st.lists(_of_type(args[0]), max_size=2).map(tuple)
    return st.from_type(kind)


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: str(kind.__struct_config__.tag))
@settings(max_examples=25, deadline=None, suppress_health_check=list(HealthCheck))
@given(data=st.data())
def test_every_fact_is_read_as_it_was_written(kind: type[e.Fact], data: st.DataObject) -> None:
    fact = data.draw(facts_of(kind))
    written = encode_fact(fact)

    assert decode_fact(written) == fact
    assert type(decode_fact(written)) is kind
    assert encode_fact(decode_fact(written)) == written


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: str(kind.__struct_config__.tag))
@settings(max_examples=5, deadline=None, suppress_health_check=list(HealthCheck))
@given(data=st.data())
def test_a_field_nobody_knows_is_refused(kind: type[e.Fact], data: st.DataObject) -> None:
    written = msgspec.json.decode(encode_fact(data.draw(facts_of(kind))))

    with pytest.raises(Undecodable, match="unknown field `later`"):
        decode_fact(msgspec.json.encode({**written, "later": 1}))


@pytest.mark.parametrize(
    ("fact", "path"),
    [
        (e.AgentResponded(agent="a", text="", usage=e.Usage(model="m")), ["usage"]),
        (
            e.AgentResponded(agent="a", text="", calls=(ToolCall(id="1", name="n", arguments={}),)),
            ["calls", 0],
        ),
        (
            e.HandlerRan(
                state="s",
                handler="h",
                slot="pre_handler",
                contexts=(e.ContextChange(context="c", action="clear"),),
            ),
            ["contexts", 0],
        ),
        (e.DefinitionChanged(definition=define(flow(state("start")))), ["definition"]),
        (e.DefinitionChanged(definition=define(flow(state("start")))), ["definition", "workflow"]),
        (e.RunStarted(workflow="w", definition=define(flow(state("start")))), ["definition"]),
    ],
)
def test_a_field_nobody_knows_deep_inside_is_refused(fact: e.AnyFact, path: list[Any]) -> None:
    written = msgspec.json.decode(encode_fact(fact))
    inner = written
    for step in path:
        inner = inner[step]
    inner["later"] = 1

    with pytest.raises(Undecodable, match="unknown field"):
        decode_fact(msgspec.json.encode(written))


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"{}",
        b"null",
        b"[]",
        b'{"type":"run_vanished"}',
        b'{"type":"run_resumed"',
        b'{"type":"run_resumed"}{}',
        b'{"type":"run_suspended"}',
        b'{"type":"run_suspended","reason":1}',
        b'{"type":"run_suspended","reason":null}',
        b'{"type":"run_recovered","was_cut":"yes"}',
        b'{"type":"interrupted","epoch":1.5,"text":null}',
        b'{"type":"tool_returned","call_id":"a","name":"n","outcome":"fine","result":""}',
        b'{"type":"run_suspended","reason":"\xff"}',
        b'{"type":"run_suspended","reason":"\xed\xa0\x80"}',
        b'{"type":"run_suspended","reason":"\\ud800"}',
        b'{"type":"run_finished","output":NaN}',
        b'{"type":"run_finished","output":1e400}',
        b'{"type":"run_finished","output":' + b"[" * 10_000 + b"]" * 10_000 + b"}",
        b"\x00\x01\x02",
    ],
)
def test_what_is_no_fact_is_refused(data: bytes) -> None:
    with pytest.raises(Undecodable):
        decode_fact(data)


@given(st.binary(max_size=60))
def test_no_bytes_break_the_reader(data: bytes) -> None:
    for read in (decode_fact, partial(decode_run, pages={})):
        try:
            read(data)
        except Undecodable:
            continue


@given(st.data())
@settings(max_examples=40, deadline=None)
def test_a_flipped_bit_is_refused_or_seen_by_the_checksum(data: st.DataObject) -> None:
    fact = e.ToolCalled(call_id="call_1", name="shell", arguments={"a": [1, "é"]}, agent="dude")
    written = encode_fact(fact)
    place = data.draw(st.integers(0, len(written) * 8 - 1))
    flipped = bytearray(written)
    flipped[place // 8] ^= 1 << place % 8

    assert chained(FIRST, 1, 0.0, bytes(flipped)) != chained(FIRST, 1, 0.0, written)


@pytest.mark.parametrize(
    "fact", [e.WorkflowOutput(text="half \ud800"), e.RunFinished(output={"\udfff": 1})]
)
def test_half_a_surrogate_pair_is_not_written(fact: e.AnyFact) -> None:
    with pytest.raises(ValueError, match="surrogates"):
        encode_fact(fact)


def test_a_fact_is_small_and_plain() -> None:
    assert encode_fact(e.RunResumed()) == b'{"type":"run_resumed"}'
    written = encode_fact(e.FileWritten(call_id="call_1", path="/w/a", before=None, after="b"))
    assert b'"before":null' in written, "nothing there is not the same as not said"
    asked = encode_fact(e.QuestionAsked(question_id="q1", number=1, kind="input", text="\0\n"))
    assert b"\\u0000" in asked


# --- checksums ------------------------------------------------------------------------------------


def test_a_checksum_covers_its_place_its_time_its_fact_and_all_before() -> None:
    first = chained(FIRST, 1, 1.0, b"a")
    different = {
        first,
        chained(FIRST, 2, 1.0, b"a"),
        chained(FIRST, 1, 1.0000000000000002, b"a"),
        chained(FIRST, 1, 1.0, b"b"),
        chained(first, 1, 1.0, b"a"),
        chained(first, 2, 1.0, b"a"),
    }

    assert len(different) == 6
    assert {len(checksum) for checksum in different} == {16}
    assert chained(FIRST, 1, 1.0, b"a") == first


def test_bytes_that_move_from_one_part_to_the_next_are_seen() -> None:
    assert chained(b"", 11, 1.0, b"") != chained(b"", 1, 1.0, b"1")
    assert chained(b"", 1, 1.0, b"\0a") != chained(b"\0", 1, 1.0, b"a")


# --- runs -----------------------------------------------------------------------------------------


@settings(max_examples=60, deadline=None, suppress_health_check=list(HealthCheck))
@given(st.data())
def test_a_folded_run_is_read_as_it_was_written(data: st.DataObject) -> None:
    run, _ = told(data, data.draw(st.sampled_from(RESUMES)))
    again = decode_run(*encode_run(run))

    assert again == run
    assert again.plan is not None
    assert encode_run(again)[0] == encode_run(run)[0]


@settings(max_examples=60, deadline=None, suppress_health_check=list(HealthCheck))
@given(st.data(), st.integers(1, 3))
def test_a_run_taken_up_through_snapshots_is_the_one_folded_from_its_facts(
    data: st.DataObject, size: int
) -> None:
    run, facts = told(data, data.draw(st.sampled_from(RESUMES)), most=60)
    kept: dict[str, bytes] = {}
    with patch.object(append_only, "PAGE", size), patch.object(append_only, "RECENT", 2):
        folded = again = Run(id=run.id)
        for fact in facts:
            folded, again = apply(folded, fact), apply(again, fact)
            if data.draw(st.booleans()):
                head, pages = encode_run(again)
                kept |= {name: pages[name] for name in pages.keys() - kept.keys()}
                again = decode_run(head, {name: kept[name] for name in pages})

        assert encode_run(folded)[0] == encode_run(again)[0]
        assert first_difference(folded, again) is None
        assert costs(again.usage.requests) == costs(tuple(run.usage.requests))
        assert again == run


def test_a_snapshot_makes_no_page_that_was_kept_before() -> None:
    talk = Log(Message(role="user", text=f"line {n}") for n in range(3 * PAGE))
    run = Run(id="r", contexts={"talk": talk})
    head, pages = encode_run(run)
    again = decode_run(head, dict(pages))
    for n in range(PAGE):
        more = logged(again.contexts["talk"], Message(role="user", text=f"more {n}"))
        again = replace(again, contexts={"talk": more})
    later = encode_run(again)[1]

    assert len(later.keys() - pages.keys()) == 1
    assert pages.keys() < later.keys()
    assert not is_read(again.contexts["talk"])


def test_a_snapshot_that_lacks_a_page_is_none() -> None:
    run = Run(
        id="r",
        inbox=Inbox(
            questions=Log(
                Question(id=f"q{n}", number=n, kind="input", text="?") for n in range(PAGE)
            )
        ),
    )
    head, pages = encode_run(run)

    assert decode_run(head, dict(pages)) == run
    with pytest.raises(Undecodable, match="is not there"):
        decode_run(head, {})


def test_a_long_run_is_read_from_many_pages() -> None:
    size = 3 * PAGE + 1
    words = tuple(Message(role="user", text=f"line\n{n}") for n in range(size))
    lines = {f"i{n}": InputRecord(id=f"i{n}", text="so", handling="queue") for n in range(size)}
    questions = tuple(
        Question(id=f"q{n}", number=n, kind="question", text="Which?") for n in range(size)
    )
    usages = tuple(
        ("dude", e.Usage(model="m", input_tokens=n, output_tokens=1)) for n in range(size)
    )
    run = Run(
        id="r",
        contexts={"talk\n": words, "empty": ()},
        inbox=Inbox(lines=lines, questions=questions),
        usage=RunUsage(requests=usages),
    )
    written = encode_run(run)

    assert decode_run(*written) == run
    assert [*decode_run(*written).inbox.lines] == [*lines]
    assert len(written[1]) == 4 * 3, "what is full of each stands on pages"


def test_a_run_that_has_not_started_is_read_as_it_was_written() -> None:
    assert decode_run(*encode_run(Run(id="r"))) == Run(id="r")


def test_a_run_read_again_shares_its_plan_like_any_other() -> None:
    run = decode_run(*encode_run(Run(id="r", definition=define(RICH))))
    assert run.definition is not None

    assert run.plan is plan_of(run.definition.workflow)


@pytest.mark.parametrize("data", [b"", b"{}", b'{"id":1}', b'{"id":"r","phase":"asleep"}', b"\xff"])
def test_what_is_no_run_is_refused(data: bytes) -> None:
    with pytest.raises(Undecodable):
        decode_run(data, {})


def test_a_run_of_another_version_is_refused() -> None:
    shape, _, body = encode_run(Run(id="r"))[0].partition(b"\n")

    with pytest.raises(Undecodable, match="another version"):
        decode_run(b"0" * len(shape) + b"\n" + body, {})
    with pytest.raises(Undecodable):
        decode_run(shape + b"\n" + body[:-1], {})
