"""A machine in the languages of other drawers: Mermaid and Graphviz's DOT.

Names go in quotes, escaped; what the drawers know a state by is a number of ours, so that no name can
mean anything to them.
"""

from collections.abc import Callable, Iterator

import msgspec

from midstream.language.names import STOP
from midstream.views.cells import one_line
from midstream.views.graph import Edge, Graph, Group, Node, target_words
from midstream.views.graph_layout import in_order
from midstream.views.graph_marks import NO_MARKS, Key, Marks

_SAFE = frozenset(" .,-_()/?!=+*'")


class _State(msgspec.Struct, frozen=True):
    """A state with its number, and its key among the marks."""

    id: str
    key: Key
    node: Node
    graph: Graph
    prefix: Key


def _numbered(graph: Graph, prefix: Key, ids: dict[Key, str]) -> Iterator[_State]:
    """Yield the states of one machine, those within them left out."""
    for name in in_order(graph):
        node = graph.node(name)
        if node is not None:
            key = (*prefix, name)
            ids.setdefault(key, f"s{len(ids) + 1}")
            yield _State(ids[key], key, node, graph, prefix)


def _marked(marks: Marks, key: Key) -> str:
    if key in marks.current and not marks.is_over:
        return "current"
    return "visited" if key in marks.visits else ""


def _lines_of(node: Node, marks: Marks, key: Key) -> list[str]:
    count = marks.visits.get(key, 0)
    title = f"{node.name} ×{count}" if count else node.name
    return [one_line(text) for text in (title, node.work or node.output) if text]


# --- Mermaid ------------------------------------------------------------------------------------------


def mermaid(graph: Graph, *, marks: Marks = NO_MARKS) -> str:
    """Return the machine as a Mermaid flowchart."""
    ids: dict[Key, str] = {}
    lines = ["flowchart TD", *_mermaid(graph, (), ids, marks, "  ")]
    marked = [(id, look) for key, id in ids.items() if (look := _marked(marks, key))]
    lines += [f"  class {id} {look}" for id, look in marked]
    if marked:
        lines.append("  classDef visited stroke:#2da44e,stroke-width:2px")
        lines.append("  classDef current stroke:#bf8700,stroke-width:4px")
    return "\n".join(lines)


def _mermaid(
    graph: Graph, prefix: Key, ids: dict[Key, str], marks: Marks, indent: str
) -> Iterator[str]:
    states = list(_numbered(graph, prefix, ids))
    for state in states:
        label = "<br/>".join(map(_mermaid_text, _lines_of(state.node, marks, state.key)))
        shape = '(("{}"))' if state.node.name == STOP else '["{}"]'
        yield f"{indent}{state.id}{shape.format(label)}"
        for number, group in enumerate(state.node.groups, 1):
            inner = (*state.key, group.name)
            title = _mermaid_text(_group_words(group))
            yield f'{indent}subgraph {state.id}g{number}["{title}"]'
            yield from _mermaid(group.graph, inner, ids, marks, f"{indent}  ")
            yield f"{indent}end"
            yield f"{indent}{state.id} --> {ids[(*inner, group.graph.entry)]}"
    for edge in graph.edges:
        to, label = _edge_ends(edge, prefix, ids)
        arrow = "-.->" if edge.kind in ("resume", "branch") else "-->"
        said = f'|"{_mermaid_text(label)}"|' if label else ""
        yield f"{indent}{ids[(*prefix, edge.source)]} {arrow}{said} {to}"
    if graph.resume and (*prefix, graph.resume) in ids:
        id = ids[(*prefix, graph.resume)]
        yield f'{indent}{id}w(["your words"]) -.-> {id}'
    for end, words in _nowhere(graph, prefix, ids):
        yield f'{indent}{end}["{_mermaid_text(words)}"]'


def _mermaid_text(text: str) -> str:
    return "".join(
        char if char.isalnum() or char in _SAFE else f"#{ord(char)};" for char in one_line(text)
    )


# --- DOT ----------------------------------------------------------------------------------------------


def dot(graph: Graph, *, marks: Marks = NO_MARKS) -> str:
    """Return the machine as a digraph for Graphviz."""
    ids: dict[Key, str] = {}
    return "\n".join(
        [
            f"digraph {_quoted(graph.name)} {{",
            "  compound=true;",
            '  node [shape=box, style=rounded, fontname="sans-serif"];',
            '  edge [fontname="sans-serif", fontsize=10];',
            *_dot(graph, (), ids, marks, "  "),
            "}",
        ]
    )


def _dot(
    graph: Graph, prefix: Key, ids: dict[Key, str], marks: Marks, indent: str
) -> Iterator[str]:
    looks = {
        "current": ', color="#bf8700", penwidth=3',
        "visited": ', color="#2da44e", penwidth=2',
        "": "",
    }
    states = list(_numbered(graph, prefix, ids))
    for state in states:
        label = _quoted(*_lines_of(state.node, marks, state.key))
        shape = ", shape=doublecircle" if state.node.name == STOP else ""
        look = looks[_marked(marks, state.key)]
        yield f"{indent}{state.id} [label={label}{shape}{look}];"
        for number, group in enumerate(state.node.groups, 1):
            inner = (*state.key, group.name)
            yield f"{indent}subgraph cluster_{state.id}g{number} {{"
            yield f"{indent}  label={_quoted(_group_words(group))};"
            yield from _dot(group.graph, inner, ids, marks, f"{indent}  ")
            yield f"{indent}}}"
            yield f"{indent}{state.id} -> {ids[(*inner, group.graph.entry)]};"
    for edge in graph.edges:
        target, label = _edge_ends(edge, prefix, ids)
        style = ", style=dashed" if edge.kind in ("resume", "branch") else ""
        yield f"{indent}{ids[(*prefix, edge.source)]} -> {target} [label={_quoted(label)}{style}];"
    if graph.resume and (*prefix, graph.resume) in ids:
        id = ids[(*prefix, graph.resume)]
        yield f'{indent}{id}w [label="your words", shape=plaintext];'
        yield f"{indent}{id}w -> {id} [style=dashed];"
    for end, words in _nowhere(graph, prefix, ids):
        yield f"{indent}{end} [label={_quoted(words)}, shape=plaintext];"


def _quoted(*lines: str) -> str:
    escaped = (one_line(line).replace("\\", "\\\\").replace('"', '\\"') for line in lines)
    return '"' + "\\n".join(escaped) + '"'


# --- both ---------------------------------------------------------------------------------------------


def _group_words(group: Group) -> str:
    return {"branch": "branch ", "item": "for each of ", "workflow": "workflow "}[
        group.kind
    ] + group.name


def _edge_ends(edge: Edge, prefix: Key, ids: dict[Key, str]) -> tuple[str, str]:
    """Return what an edge leads to, and its label. A state that does not exist is nowhere."""
    target = ids.get((*prefix, edge.target))
    return target or _nowhere_id(edge, prefix, ids), one_line(edge.label)


def _nowhere_id(edge: Edge, prefix: Key, ids: dict[Key, str]) -> str:
    return f"{ids[(*prefix, edge.source)]}x{len(edge.target)}"


def _nowhere(graph: Graph, prefix: Key, ids: dict[Key, str]) -> list[tuple[str, str]]:
    """Return the ends of edges that lead to no state of the machine, with words for them."""
    ends = {
        _nowhere_id(edge, prefix, ids): target_words(edge.target)
        for edge in graph.edges
        if (*prefix, edge.target) not in ids
    }
    return list(ends.items())


FORMATS: dict[str, Callable[..., str]] = {"mermaid": mermaid, "dot": dot}
