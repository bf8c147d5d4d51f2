"""Handlers of code_architecture_review: the figures come from the tool, the words from the agents.

`measurement` (what measure_code returned), `focus`, `spotlight`, `guidance`, `findings`, `challenge`,
`defence` and `report` are kept in common_data.
"""

import json
import re

from midstream import WorldTrouble

CHOICES = ["complexity", "change", "coupling", "size"]


# --- measuring ----------------------------------------------------------------------------------


def ask_for_measurement(run):
    """Send the surveyor off. What the user wishes is for the architect."""
    run.contexts["survey"].add_message("user", "Call the tool measure_code now.")


def keep_measurement(run):
    """Take the figures from the tool's own result, and show them to the architect."""
    run.common_data["attempts"] = run.common_data.get("attempts", 0) + 1
    results = [r for r in run.contexts["survey"].tool_results if r.name == "measure_code"]
    measured = [result.text for result in results if result.outcome == "completed"]
    if measured:
        run.common_data["measurement"] = json.loads(measured[-1])
        run.contexts["review"].add_message("user", f"The figures of this workspace: {measured[-1]}")
    elif results:
        run.common_data["trouble"] = results[-1].text
        run.log(f"Measuring failed: {results[-1].text}")


def after_measuring(run):
    """Go on with figures; without any, ask the surveyor again, a few times."""
    if "measurement" in run.common_data:
        return "focus" if run.common_data["measurement"]["totals"]["files"] else "report"
    if run.common_data["attempts"] >= run.variables["max_measurements"]:
        why = run.common_data.get("trouble", "its model did not call measure_code")
        raise WorldTrouble(
            f"The surveyor never got a measurement: {why}.",
            hint="Try again, or choose a model that is better with tools: --model, or /model.",
        )
    return "start"


# --- asking the user ----------------------------------------------------------------------------


def ask_for_focus(run):
    """Let the architect ask the user."""
    wish = f" They asked for this: {run.input}" if run.input else ""
    run.contexts["review"].add_message(
        "user",
        "Ask the user what matters most to them: call request_users_input with one question and "
        f"these choices: {', '.join(CHOICES)}.{wish}",
    )


def keep_focus(run):
    """Take the answer from the question's own result, not from what the architect made of it."""
    answers = [
        result.text
        for result in run.contexts["review"].tool_results
        if result.name == "request_users_input" and result.outcome == "completed"
    ]
    run.common_data["focus"] = answers[-1] if answers else "no one thing"
    run.common_data["spotlight"] = spotlight(run.common_data["measurement"], answers[-1:])


def spotlight(measurement, answers):
    """Return the heaviest places by what the user finds most important, in words."""
    wanted = " ".join(answers).casefold()
    places = {
        "complexity": [
            f"`{f['name']}` in `{f['path']}` (complexity {f['complexity']}, {f['lines']} lines)"
            for f in measurement["most_complex"]
        ],
        "change": [
            f"`{f['path']}` ({f['changes']} changes, complexity {f['complexity']})"
            for f in measurement["ranking"]
        ],
        "coupling": [
            f"`{m['module']}` (importers: {m['by']})"
            for m in measurement["imports"]["most_imported"]
        ],
        "size": [f"`{f['path']}` ({f['lines']} lines)" for f in measurement["largest"]],
    }
    found = [places[choice] for choice in CHOICES if choice in wanted]
    return next((some for some in [*found, *places.values()] if some), [])[:5]


# --- findings and their challenge -----------------------------------------------------------------


def ask_for_findings(run):
    """Tell the architect what its findings are to answer."""
    places = "\n".join(f"- {place}" for place in run.common_data["spotlight"])
    run.contexts["review"].add_message(
        "user",
        f"What matters most to the user: {run.common_data['focus']}. The heaviest places by that:\n"
        f"{places}\nRead what you need, then give your findings.",
    )


def ask_for_challenge(run):
    """Say whose turn it is: the reviewer sees its own side of the conversation as its own words."""
    run.contexts["review"].add_message("assistant", "Challenge these findings.")


def ask_for_defence(run):
    """Let the architect answer the objections."""
    run.contexts["review"].add_message(
        "user", "Answer each objection: grant it and correct the finding, or say why it fails."
    )


def keep_words(run):
    """Keep an agent's words for the report, and let the other agent hear them."""
    run.common_data[run.state] = run.last_response.text
    side = "user" if run.last_response.agent == "reviewer" else "assistant"
    run.contexts["review"].add_message(side, run.last_response.text)


# --- words typed while it runs --------------------------------------------------------------------


def fold_in(run):
    """Keep what the user said unasked, and tell the agents."""
    said = run.resume_input
    run.common_data["guidance"] = [*run.common_data.get("guidance", []), said]
    run.common_data["heard"] = f"You also said, and it counts: {said}"
    run.contexts["review"].add_message("user", f"The user adds: {said}")


def go_back(run):
    """Return to the first state whose work the new words can change; what was measured stays."""
    if "measurement" not in run.common_data:
        back = "start"
    elif "focus" not in run.common_data:
        back = "focus"
    else:
        back = "findings"
    run.log(f"Heard. Going back to {back}.")
    return back


# --- the report -----------------------------------------------------------------------------------


def write_report(run):
    """Put the report together: tables of what was measured, then the agents' words."""
    data = run.common_data
    figures = data["measurement"]
    words = [
        (title, data[title.lower()])
        for title in ("Findings", "Challenge", "Defence")
        if title.lower() in data
    ]
    parts = [
        f"# Architecture review: {figures['folder']}",
        f"Asked for: {run.input}" if run.input else "",
        *(focus_part(data) if words else ["There are no files here to review."]),
        *guidance_part(data.get("guidance", [])),
        *figures_part(figures),
        *(f"## {title}\n\n{quoted(text, figures)}" for title, text in words),
        "## Where the figures come from",
        "The tables hold what `measure_code` measured. The quoted words are the agents'; a number in "
        f"them that was not measured is shown as {UNMEASURED}.",
        "\n".join(f"- {note}" for note in figures["notes"]),
    ]
    data["report"] = "\n\n".join(part for part in parts if part)


def focus_part(data):
    """Return what the user said matters most, and where that leads."""
    places = "\n".join(f"- {place}" for place in data["spotlight"])
    return [f"What matters most: **{data['focus']}**. The heaviest places by that:", places]


def guidance_part(guidance):
    """Return what the user said while the review ran."""
    if not guidance:
        return []
    said = "\n".join("> " + words.replace("\n", "\n> ") + "\n" for words in guidance)
    return ["## What you said while it ran", f"{said}\nThe agents heard it before they went on."]


def figures_part(figures):
    """Return the measured tables, each under its heading; an empty one is left out."""
    totals, imports = figures["totals"], figures["imports"]
    tables = [
        (
            "Figures",
            ["measured", "value"],
            [[key.replace("_", " "), totals[key]] for key in totals],
        ),
        ("Languages", *columns(figures["languages"], "name", "files", "lines")),
        (
            f"Where change meets complexity (last {figures['history']['commits']} commits)",
            *columns(figures["ranking"], "path", "changes", "complexity", "score"),
        ),
        (
            "Most complex functions",
            *columns(figures["most_complex"], "name", "path", "line", "lines", "complexity"),
        ),
        (
            "Largest files",
            *columns(figures["largest"], "path", "lines", "functions", "complexity"),
        ),
        ("Most imported modules", *columns(imports["most_imported"], "module", "by")),
        (
            f"Import cycles ({imports['cycle_count']})",
            ["modules that import each other"],
            [[", ".join(map(code, cycle))] for cycle in imports["cycles"]],
        ),
    ]
    return [f"## {title}\n\n{table(names, rows)}" for title, names, rows in tables if rows]


def columns(items, *names):
    """Return the headings and rows of a table of objects."""
    return list(names), [[code(item[name]) for name in names] for item in items]


def code(cell):
    """Return names in backticks, so that `__init__` stays as it is; numbers as they are."""
    return f"`{cell}`" if isinstance(cell, str) else cell


def table(names, rows):
    """Return a Markdown table; numbers stand to the right."""
    lines = [["---:" if isinstance(cell, int | float) else "---" for cell in rows[0]], *rows]
    return "\n".join("| " + " | ".join(map(cell_text, line)) + " |" for line in [names, *lines])


def cell_text(cell):
    """Return a cell that cannot break its table."""
    return str(cell).replace("|", "\\|").replace("\n", " ")


UNMEASURED = "[?]"
NUMBER = re.compile(
    r"`[^`\n]*[A-Za-z][^`\n]*`"  # a name in backticks
    r"|^\s*\d{1,2}[.)]"  # the number of a list's item
    r"|(?<![\w.])\d+(?:,\d{3})*(?:\.\d+)?[kKM]?(?!\w)",
    re.MULTILINE,
)


def quoted(words, figures):
    """Return an agent's words as a quotation, with every number in them that nobody measured masked.

    Names in backticks and the numbers of a list stay as they are.
    """
    measured = set(re.findall(r"\d+(?:\.\d+)?", json.dumps(figures)))

    def checked(found):
        text = found.group()
        is_number = text[0].isdigit() and text[-1] not in ".)"
        return UNMEASURED if is_number and text.replace(",", "") not in measured else text

    return "> " + NUMBER.sub(checked, words.strip()).replace("\n", "\n> ")
