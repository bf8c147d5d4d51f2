"""Handlers of review_changes: lines are counted in the diff, not by an agent; reports of what held."""

import json
import re

MOST = 150_000
"""Characters of a diff that are shown to a reviewer."""
ORDER = ("error", "warning", "note")
DIFF = re.compile(r"^(diff --git |--- |@@ )", re.MULTILINE)
HUNK = re.compile(r"@@ -\d+(?:,(\d+))? \+(\d+)(?:,(\d+))? @@")


def sort_or_read(run):
    """Take a diff as it is; let git show what anything else names."""
    return "sort" if DIFF.search(run.input) else "read"


def sort_lines(run):
    """Keep the change and, by file, the ranges of its new lines."""
    data = run.common_data
    diff = data.get("diff", run.input)
    if "diff" in data:
        diff = re.sub(r"\AExit code: 0\n\n", "", diff)
    data["files"] = new_lines(diff)
    left = len(diff) - MOST
    data["shown"] = diff[:MOST] + (f"\n[cut: {left:,} more characters]" if left > 0 else "")
    data["unseen"] = max(0, left)
    data["findings"] = []


def new_lines(diff):
    """Return by file the first and last line of each run of new lines in a diff."""
    files: dict[str, list[list[int]]] = {}
    ranges, at, old_left, new_left = None, 0, 0, 0
    for line in diff.splitlines():
        if old_left <= 0 and new_left <= 0:
            if line.startswith("+++ "):
                path = line[4:].split("\t")[0].strip().strip('"')
                ranges = (
                    None if path == "/dev/null" else files.setdefault(path.removeprefix("b/"), [])
                )
            elif (hunk := HUNK.match(line)) is not None:
                old_left, at, new_left = int(hunk[1] or 1), int(hunk[2]), int(hunk[3] or 1)
            continue
        if line.startswith("-"):
            old_left -= 1
        elif line.startswith("\\"):
            continue
        else:
            if line.startswith("+") and ranges is not None:
                if ranges and ranges[-1][1] == at - 1:
                    ranges[-1][1] = at
                else:
                    ranges.append([at, at])
            else:
                old_left -= 1
            at, new_left = at + 1, new_left - 1
    return files


def number_findings(run):
    """Number what was found, and say of each whether it stands on a new line."""
    data = run.common_data
    data["findings"] = []
    rows = []
    for number, found in enumerate(data["look"]["findings"], 1):
        path = found["file"].removeprefix("b/").removeprefix("./")
        ranges = data["files"].get(path)
        is_new = any(first <= found["line"] <= last for first, last in ranges or ())
        place = "new" if is_new else "elsewhere" if ranges is not None else "unknown"
        data["findings"].append({**found, "file": path, "number": number, "place": place})
        where = f"{path}:{found['line']} ({found['severity']})"
        rows.append(f"{number}. {where}: {found['title']} {found['why']}")
    data["listed"] = "\n".join(rows)


def write_report(run):
    """Put what held into Markdown and SARIF."""
    data = run.common_data
    checks = {each["number"]: each for each in data.get("check", {}).get("checks", ())}
    told = [
        {**found, "check": checks.get(found["number"], {"holds": True, "why": ""})}
        for found in data["findings"]
    ]
    held = sorted(
        (each for each in told if each["check"]["holds"]),
        key=lambda each: (ORDER.index(each["severity"]), each["file"], each["line"]),
    )
    fallen = [each for each in told if not each["check"]["holds"]]
    data["held"] = held
    data["sarif"] = sarif(held)
    is_sarif = run.variables["format"] == "sarif"
    data["report"] = (
        json.dumps(data["sarif"], indent=1) if is_sarif else markdown(data, held, fallen)
    )


def markdown(data, held, fallen):
    """Return the findings as a page."""
    if not data["files"]:
        return "There is no change to review."
    count = f"{len(data['files'])} file{'' if len(data['files']) == 1 else 's'}"
    parts = [
        f"# Review\n\n{count} changed; {len(held)} of {len(held) + len(fallen)} findings held."
    ]
    if data["unseen"]:
        parts.append(
            f"**Not all of it was read**: the last {data['unseen']:,} characters were left out."
        )
    for each in held:
        unsure = {
            "new": "",
            "elsewhere": ", not a changed line",
            "unknown": ", no file of this change",
        }
        parts.append(
            f"## {each['severity']}: {each['title']}\n\n"
            f"`{each['file']}:{each['line']}`{unsure[each['place']]}\n\n{each['why']}"
            + (
                f"\n\nChecked: {each['check']['why']}"
                if each["check"]["why"]
                else "\n\nNobody checked it."
            )
        )
    if fallen:
        rows = [
            f"- {each['title']} (`{each['file']}:{each['line']}`): {each['check']['why']}"
            for each in fallen
        ]
        parts.append("## Did not hold\n\n" + "\n".join(rows))
    return "\n\n".join(parts)


def sarif(held):
    """Return the findings as SARIF 2.1.0. Only lines and files that the change has are places."""
    return {
        "$schema": "https://json.schemastore.org/sarif-2.1.0.json",
        "version": "2.1.0",
        "runs": [
            {
                "tool": {
                    "driver": {
                        "name": "midstream",
                        "rules": [{"id": f"review/{level}"} for level in ORDER],
                    }
                },
                "results": [
                    {
                        "ruleId": f"review/{each['severity']}",
                        "level": each["severity"],
                        "message": {"text": f"{each['title']}\n\n{each['why']}"},
                        "locations": [] if each["place"] == "unknown" else [place_of(each)],
                    }
                    for each in held
                ],
            }
        ],
    }


def place_of(found):
    """Return where a finding stands."""
    return {
        "physicalLocation": {
            "artifactLocation": {"uri": found["file"]},
            "region": {"startLine": max(1, found["line"])},
        }
    }
