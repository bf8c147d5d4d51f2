"""A machine in the languages of other drawers: Mermaid and Graphviz's DOT.

Names go in quotes, escaped; what the drawers know a state by is a number of ours, so that no name can
mean anything to them. The machine is gone through once, and each language is a table of how it says
what is found on the way.
"""

from collections.abc import Iterator
from typing import Literal, TypeAlias

import msgspec

from midstream.language.names import STOP
from midstream.views.cells import one_line
from midstream.views.graph import Graph, target_words
from midstream.views.graph_layout import in_order
from midstream.views.graph_marks import NO_MARKS, Key, Marks

_Kind: TypeAlias = Literal[
    "state", "stop", "group", "end", "enters", "leads", "dashed", "words", "nowhere"
]


class _Item(msgspec.Struct, frozen=True):
    """Something to say, so many machines deep: of a state `id`, of an edge from there `to` a state."""

    depth: int
    kind: _Kind
    id: str = ""
    lines: tuple[str, ...] = ()
    to: str = ""
    look: str = ""


def _items(graph: Graph, prefix: Key, ids: dict[Key, str], marks: Marks) -> Iterator[_Item]:
    """Yield what there is to say of a machine. Its states are numbered before those within them."""
    depth = len(prefix) // 2
    keys = [(*prefix, name) for name in in_order(graph)]
    for key in keys:
        ids.setdefault(key, f"s{len(ids) + 1}")
    for key in keys:
        node, id = graph.node(key[-1]), ids[key]
        assert node is not None, "what stands in order is a state"
        count = marks.visits.get(key, 0)
        title = f"{node.name} ×{count}" if count else node.name
        lines = tuple(one_line(text) for text in (title, node.work or node.output) if text)
        kind: _Kind = "stop" if node.name == STOP else "state"
        yield _Item(depth, kind, id, lines, look=_look(marks, key))
        for number, group in enumerate(node.groups, 1):
            inner = (*key, group.name)
            called = {"branch": "branch", "item": "for each of", "workflow": "workflow"}[group.kind]
            yield _Item(depth, "group", f"{id}g{number}", (f"{called} {group.name}",))
            yield from _items(group.graph, inner, ids, marks)
            yield _Item(depth, "end")
            yield _Item(depth, "enters", id, to=ids[(*inner, group.graph.entry)])
    nowhere: dict[str, str] = {}
    for edge in graph.edges:
        id = ids[(*prefix, edge.source)]
        to = ids.get((*prefix, edge.target))
        if to is None:  # such as a state that does not exist
            to = f"{id}x{len(edge.target)}"
            nowhere[to] = target_words(edge.target)
        kind = "dashed" if edge.kind in ("resume", "branch") else "leads"
        yield _Item(depth, kind, id, (edge.label,), to)
    if graph.resume and (*prefix, graph.resume) in ids:
        yield _Item(depth, "words", ids[(*prefix, graph.resume)])
    for end, words in nowhere.items():
        yield _Item(depth, "nowhere", end, (words,))


def _look(marks: Marks, key: Key) -> str:
    if key in marks.current and not marks.is_over:
        return "current"
    return "visited" if key in marks.visits else ""


def _line(forms: dict[_Kind, str], item: _Item, text: str, look: str = "") -> str:
    said = forms[item.kind].format(id=item.id, text=text, to=item.to, look=look)
    indent = "  " * (item.depth + 1)
    return "\n".join(f"{indent}{line}" for line in said.split("\n"))


# --- Mermaid ------------------------------------------------------------------------------------------

_SAFE = frozenset(" .,-_()/?!=+*'")
_MERMAID: dict[_Kind, str] = {
    "state": '{id}["{text}"]',
    "stop": '{id}(("{text}"))',
    "group": 'subgraph {id}["{text}"]',
    "end": "end",
    "enters": "{id} --> {to}",
    "leads": "{id} -->{text} {to}",
    "dashed": "{id} -.->{text} {to}",
    "words": '{id}w(["your words"]) -.-> {id}',
    "nowhere": '{id}["{text}"]',
}


def mermaid(graph: Graph, *, marks: Marks = NO_MARKS) -> str:
    """Return the machine as a Mermaid flowchart."""
    ids: dict[Key, str] = {}
    lines = ["flowchart TD"]
    for item in _items(graph, (), ids, marks):
        text = "<br/>".join(map(_entities, item.lines))
        if text and item.kind in ("leads", "dashed"):
            text = f'|"{text}"|'
        lines.append(_line(_MERMAID, item, text))
    marked = [f"  class {id} {look}" for key, id in ids.items() if (look := _look(marks, key))]
    if marked:
        marked.append("  classDef visited stroke:#2da44e,stroke-width:2px")
        marked.append("  classDef current stroke:#bf8700,stroke-width:4px")
    return "\n".join([*lines, *marked])


def _entities(text: str) -> str:
    return "".join(
        char if char.isalnum() or char in _SAFE else f"#{ord(char)};" for char in one_line(text)
    )


# --- DOT ----------------------------------------------------------------------------------------------

_DOT: dict[_Kind, str] = {
    "state": "{id} [label={text}{look}];",
    "stop": "{id} [label={text}, shape=doublecircle{look}];",
    "group": "subgraph cluster_{id} {{\n  label={text};",
    "end": "}}",
    "enters": "{id} -> {to};",
    "leads": "{id} -> {to} [label={text}];",
    "dashed": "{id} -> {to} [label={text}, style=dashed];",
    "words": '{id}w [label="your words", shape=plaintext];\n{id}w -> {id} [style=dashed];',
    "nowhere": "{id} [label={text}, shape=plaintext];",
}
_DOT_LOOKS = {
    "current": ', color="#bf8700", penwidth=3',
    "visited": ', color="#2da44e", penwidth=2',
    "": "",
}


def dot(graph: Graph, *, marks: Marks = NO_MARKS) -> str:
    """Return the machine as a digraph for Graphviz."""
    items = _items(graph, (), {}, marks)
    return "\n".join(
        [
            f"digraph {_quoted(graph.name)} {{",
            "  compound=true;",
            '  node [shape=box, style=rounded, fontname="sans-serif"];',
            '  edge [fontname="sans-serif", fontsize=10];',
            *(_line(_DOT, each, _quoted(*each.lines), _DOT_LOOKS[each.look]) for each in items),
            "}",
        ]
    )


def _quoted(*lines: str) -> str:
    escaped = (one_line(line).replace("\\", "\\\\").replace('"', '\\"') for line in lines)
    return '"' + "\\n".join(escaped) + '"'
