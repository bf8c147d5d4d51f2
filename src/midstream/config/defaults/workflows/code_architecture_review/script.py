"""Handlers of code_architecture_review: the figures come from the tool, the words from the agents.

The states keep `measurement`, `focus`, `findings`, `challenge` and `defence` in common_data, the
handlers `spotlight`, `guidance`, `heard` and `report`.
"""

import json
import re

SIDES = {"structure": "Structure", "hot_spots": "Hot spots", "tests": "Tests"}


# --- before the findings ------------------------------------------------------------------------


def show_spotlight(run):
    """Choose the heaviest places by what the user finds most important, and show the figures."""
    figures, focus = run.common_data["measurement"], run.common_data["focus"]
    run.common_data["spotlight"] = spotlight(figures, focus)
    places = "\n".join(f"- {place}" for place in run.common_data["spotlight"])
    wish = f"\nThe user asked for this: {run.input}" if run.input else ""
    run.contexts["review"].add_message(
        "user",
        f"What matters most to the user: {focus}. The heaviest places by that:\n{places}{wish}\n"
        f"Figures of this workspace: {json.dumps(figures['totals'])}",
    )


def spotlight(measurement, focus):
    """Return the heaviest places by what the user finds most important, in words."""
    places = {
        "complexity": [
            f"`{f['name']}` in `{f['path']}` (complexity {f['complexity']}, {f['lines']} lines)"
            for f in measurement["most_complex"]
        ],
        "change": [
            f"`{f['path']}` (changes: {f['changes']}, complexity {f['complexity']})"
            for f in measurement["ranking"]
        ],
        "coupling": [
            f"`{m['module']}` (importers: {m['by']})"
            for m in measurement["imports"]["most_imported"]
        ],
        "size": [f"`{f['path']}` ({f['lines']} lines)" for f in measurement["largest"]],
    }
    found = [places.get(focus, []), *places.values()]
    return next((some for some in found if some), [])[:5]


# --- words typed while it runs --------------------------------------------------------------------


def fold_in(run):
    """Keep what the user said unasked, and tell the agents."""
    said = run.resume_input
    run.common_data["guidance"] = [*run.common_data.get("guidance", []), said]
    run.common_data["heard"] = f"You added: {said}"
    run.contexts["review"].add_message("user", f"The user adds: {said}")
    run.log("Heard.")


# --- the report -----------------------------------------------------------------------------------


def write_report(run):
    """Put the report together: tables of what was measured, then the agents' words."""
    data = run.common_data
    figures = data["measurement"]
    findings = data.get("findings", {})
    words = [(title, findings[side]) for side, title in SIDES.items() if side in findings]
    words += [
        (title, data[title.lower()]) for title in ("Challenge", "Defence") if title.lower() in data
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
            f"Import cycles ({imports['cycle_count'] or 0})",
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
