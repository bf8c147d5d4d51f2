"""What spans, attributes and metrics are called: the one table.

Those of `gen_ai` and `error` are by the semantic conventions for generative AI, release v0.1.0, the first
of their own repository (https://github.com/open-telemetry/semantic-conventions-genai), which builds on the
semantic conventions v1.45.0. In it a workflow is an agent that is invoked (`invoke_workflow`), and requests
to models have metrics of their own; two of them are told by their former names as well, which is what
dashboards read today. What only midstream can say is called `midstream`.
"""

from typing import Final

import msgspec

CONVENTIONS: Final = "0.1.0"
"""The release of the conventions."""

SCOPE: Final = "midstream"

# --- attributes by the conventions --------------------------------------------------------------

OPERATION: Final = "gen_ai.operation.name"
INVOKE_WORKFLOW: Final = "invoke_workflow"
INVOKE_AGENT: Final = "invoke_agent"
CHAT: Final = "chat"
EXECUTE_TOOL: Final = "execute_tool"

AGENT: Final = "gen_ai.agent.name"
CONVERSATION: Final = "gen_ai.conversation.id"
PROVIDER: Final = "gen_ai.provider.name"
MODEL: Final = "gen_ai.request.model"
COMPACTED: Final = "gen_ai.conversation.compacted"
FINISH_REASONS: Final = "gen_ai.response.finish_reasons"
INPUT_TOKENS: Final = "gen_ai.usage.input_tokens"
OUTPUT_TOKENS: Final = "gen_ai.usage.output_tokens"
CACHED_TOKENS: Final = "gen_ai.usage.cache_read.input_tokens"
TOOL: Final = "gen_ai.tool.name"
TOOL_CALL: Final = "gen_ai.tool.call.id"
TOOL_TYPE: Final = "gen_ai.tool.type"
ERROR: Final = "error.type"
MODALITY: Final = "gen_ai.token.modality"
TOKEN_TYPE: Final = "gen_ai.token.type"

# Only where content is asked for:
INPUT_MESSAGES: Final = "gen_ai.input.messages"
OUTPUT_MESSAGES: Final = "gen_ai.output.messages"
TOOL_ARGUMENTS: Final = "gen_ai.tool.call.arguments"
TOOL_RESULT: Final = "gen_ai.tool.call.result"

PROVIDERS: Final = {
    "google": "gcp.gemini",
    "mistral": "mistral_ai",
    "moonshotai": "moonshot_ai",
    "openai-chat": "openai",
    "openai-responses": "openai",
    "xai": "x_ai",
}
"""The conventions' names of providers, where ours is another."""

# --- attributes of ours -------------------------------------------------------------------------

RUN: Final = "midstream.run.id"
SEQ: Final = "midstream.seq"
"""The fact a span began with."""
OUTCOME: Final = "midstream.outcome"
STATE: Final = "midstream.state"
BRANCH: Final = "midstream.branch"
ROLE: Final = "midstream.role"
HANDLER: Final = "midstream.handler"
SLOT: Final = "midstream.handler.slot"
ATTEMPT: Final = "midstream.attempt"
QUESTION: Final = "midstream.question.kind"
ABOUT: Final = "midstream.question.about"
COST: Final = "midstream.cost.usd"
HANDLING: Final = "midstream.input.handling"
SOURCE: Final = "midstream.input.source"
LEADS_TO: Final = "midstream.interruption.leads_to"
CUT_WORK: Final = "midstream.recovery.cut_work"
FORKED_AT: Final = "midstream.fork.seq"
STAGE: Final = "midstream.halt.stage"
RETRIED: Final = "midstream.retried"
REASON: Final = "midstream.reason"

# Only where content is asked for:
TEXT: Final = "midstream.text"
ANSWER: Final = "midstream.answer"
RUN_INPUT: Final = "midstream.run.input"
RUN_OUTPUT: Final = "midstream.run.output"

# --- metrics ------------------------------------------------------------------------------------


class Metric(msgspec.Struct, frozen=True):
    """A metric: its name, unit and meaning, and the bounds of its histogram (none: it is a counter)."""

    name: str
    unit: str
    about: str
    bounds: tuple[float, ...] = ()


_SECONDS: Final = tuple(0.01 * 2**power for power in range(14))
_LONG: Final = (0.1, 0.5, 1, 5, 10, 30, 60, 300, 600, 1800, 3600, 14400, 86400)
_TOKENS: Final = tuple(float(4**power) for power in range(14))

INFERENCE: Final = Metric(
    "gen_ai.client.inference.duration", "s", "How long requests to models took.", _SECONDS
)
OPERATION_OLD: Final = Metric(
    "gen_ai.client.operation.duration", "s", f"{INFERENCE.name}, as it was called before.", _SECONDS
)
INPUT_USED: Final = Metric(
    "gen_ai.client.inference.usage.input_tokens", "{token}", "Tokens sent, cached ones included."
)
OUTPUT_USED: Final = Metric(
    "gen_ai.client.inference.usage.output_tokens", "{token}", "Tokens that models wrote."
)
CACHED_USED: Final = Metric(
    "gen_ai.client.inference.usage.cache_read.input_tokens",
    "{token}",
    "Tokens sent that the provider had in its cache.",
)
TOKENS_OLD: Final = Metric(
    "gen_ai.client.token.usage",
    "{token}",
    "Tokens of each request, as they were told before.",
    _TOKENS,
)
AGENT_DURATION: Final = Metric(
    "gen_ai.invoke_agent.duration", "s", "How long turns of agents, and runs, took.", _LONG
)
TOOL_DURATION: Final = Metric(
    "gen_ai.execute_tool.duration", "s", "How long tool calls took.", _SECONDS
)
HALT: Final = Metric(
    "midstream.halt.duration",
    "s",
    "From words to where no more was shown (stage words), and nothing ran any more (stage stopped).",
    (0.001, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10),
)
WAIT: Final = Metric(
    "midstream.person.wait.duration", "s", "How long a run waited for a person.", _LONG
)
UNKNOWN: Final = Metric(
    "midstream.tool.unknown_outcomes",
    "{call}",
    "Tool calls of which nobody knows whether they happened.",
)
INTERRUPTIONS: Final = Metric(
    "midstream.interruptions", "{interruption}", "Times a run was halted."
)
SPENT: Final = Metric(
    "midstream.cost", "USD", "What requests to models cost, as far as it is known."
)
UNPRICED: Final = Metric(
    "midstream.requests.unpriced", "{request}", "Requests whose price nobody knows."
)
RETRIES: Final = Metric(
    "midstream.retries", "{retry}", "Times a state or a reply that broke off was tried again."
)
RECOVERIES: Final = Metric(
    "midstream.recoveries", "{recovery}", "Times a run went on that a process had died with."
)
