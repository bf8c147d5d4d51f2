"""The same loop in another library, for context. Only what midstream's own dependencies bring."""

from dataclasses import dataclass
from time import process_time
from typing import Any

from pydantic_graph import BaseNode, End, GraphBuilder, GraphRunContext


@dataclass
class _Data:
    count: int
    rounds: int = 0


@dataclass
class _First(BaseNode[_Data, None, int]):
    async def run(self, ctx: GraphRunContext[_Data, None]) -> "_Second":
        return _Second()


@dataclass
class _Second(BaseNode[_Data, None, int]):
    async def run(self, ctx: GraphRunContext[_Data, None]) -> "_Third":
        return _Third()


@dataclass
class _Third(BaseNode[_Data, None, int]):
    async def run(self, ctx: GraphRunContext[_Data, None]) -> _First | End[int]:
        ctx.state.rounds += 1
        return End(0) if ctx.state.rounds * 3 >= ctx.state.count else _First()


async def pydantic_graph_loop(count: int) -> float:
    """Return the seconds a transition takes in a pydantic-graph of three nodes."""
    builder: Any = GraphBuilder(state_type=_Data, input_type=_First, output_type=int)
    builder.add(
        builder.node(_First),
        builder.node(_Second),
        builder.node(_Third),
        builder.edge_from(builder.start_node).to(_First),
    )
    graph = builder.build()
    began = process_time()
    await graph.run(state=_Data(count), inputs=_First())
    return (process_time() - began) / count
