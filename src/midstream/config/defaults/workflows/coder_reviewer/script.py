"""Handlers of coder_reviewer: brief the coder, count the rounds, put the result into words."""


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


def count(run):
    """Count the round, and show the verdict. The coder hears it in its prompt, if it has to go on."""
    verdict = run.common_data["verdict"]
    run.common_data["rounds"] += 1
    decision = "Approved." if verdict["approved"] else "Not yet."
    run.log(f"Round {run.common_data['rounds']}: {decision} {verdict['comments']}")


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
