"""Handlers of coder_reviewer: brief the coder, read the verdict, stop after max_rounds."""


def brief(run):
    """Give the coder its task; after an interruption, start counting anew for the new words.

    This workflow has no state `resume`, so words typed while it runs lead back to `start`. The coder
    has them in its conversation already; here they are kept for the result.
    """
    if "rounds" not in run.common_data:
        run.contexts["work"].add_message("system", f"The task: {run.input}")
        run.common_data["guidance"] = []
    elif run.resume_input:
        run.common_data["guidance"] = [*run.common_data["guidance"], run.resume_input]
        run.common_data["heard"] = f"You also said: {run.resume_input}"
    run.common_data["rounds"] = 0


def keep_verdict(run):
    """Read the verdict from the reviewer's tool call and tell the coder."""
    verdict = next(call for call in run.last_response.tool_calls if call.name == "verdict")
    run.common_data["verdict"] = verdict.arguments
    run.common_data["rounds"] += 1
    decision = "Approved." if verdict.arguments["approved"] else "Not yet."
    run.contexts["work"].add_message("user", f"{decision} {verdict.arguments['comments']}")
    run.log(f"Round {run.common_data['rounds']}: {decision} {verdict.arguments['comments']}")


def after_verdict(run):
    """Finish when the work is approved or the rounds are used up, else let the coder go on."""
    is_used_up = run.common_data["rounds"] >= run.variables["max_rounds"]
    return "finish" if run.common_data["verdict"]["approved"] or is_used_up else "revise"


def write_result(run):
    """Put the coder's last words and the reviewer's decision together."""
    verdict, rounds = run.common_data["verdict"], run.common_data["rounds"]
    said = [
        message.content for message in run.contexts["work"].messages if message.author == "coder"
    ]
    decision = "Approved" if verdict["approved"] else "Not approved"
    heard = [f"- {words}" for words in run.common_data["guidance"]]
    run.common_data["result"] = "\n\n".join(
        [
            said[-1],
            *(["You said while it ran:\n" + "\n".join(heard)] if heard else []),
            f"{decision} after {rounds} round{'' if rounds == 1 else 's'}: {verdict['comments']}",
        ]
    )
