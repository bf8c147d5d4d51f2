"""Handlers of measured_report. Each is a plain function of the run, called beside the prompt."""

MOST_ROUNDS = 2


def brief(run):
    """Tell the writer what was measured."""
    words = run.common_data["words"]
    run.contexts["talk"].add_message(
        "user", f"{run.input} has {words} words. Say so in a sentence."
    )


def check(run):
    """Return the next state: the sentence has to name the number, and is asked for twice at most."""
    run.common_data["rounds"] = run.common_data.get("rounds", 0) + 1
    names_it = str(run.common_data["words"]) in run.last_response.text
    if names_it or run.common_data["rounds"] >= MOST_ROUNDS:
        return "keep"
    run.log("The sentence does not name the number: once more.")
    return "write"


def keep(run):
    """Keep the sentence beside the figure it is about: the figure was measured, the sentence was not."""
    run.common_data["report"] = f"{run.last_response.text} ({run.common_data['words']} words)"


def fold_in(run):
    """Pass on the words that were typed while it ran."""
    run.contexts["talk"].add_message("user", f"Also: {run.resume_input}")
