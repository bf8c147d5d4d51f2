"""What a person may say of a call whose outcome is unknown."""

from midstream.language.names import Outcome

HAPPENED = "It happened"
DID_NOT_HAPPEN = "It did not happen"
NOT_KNOWN = "Not known: let the agent verify"
OUTCOMES: dict[str, tuple[Outcome, str]] = {
    HAPPENED: (
        "completed",
        "The process ended during this call and its output is lost. The user says: it happened.",
    ),
    DID_NOT_HAPPEN: (
        "not_run",
        "The process ended before this call had an effect. The user says: it did not happen.",
    ),
    NOT_KNOWN: ("unknown", "The process ended during this call. Outcome unknown: verify first."),
}
"""What a person may say of a call whose outcome is unknown, and what the model is told then."""
