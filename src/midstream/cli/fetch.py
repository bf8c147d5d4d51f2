"""Getting what a run of a repository has made: into a branch of a checkout."""

from functools import partial

import click

from midstream.app.assembly import Options
from midstream.cli.journal import Journal, with_journal
from midstream.cli.options import RUNS, takes
from midstream.cli.output import FINISHED, answer
from midstream.language.errors import UserMistake
from midstream.runtime.engine.open_run import found, opened
from midstream.system.offloop import in_thread


@click.command("fetch")
@click.argument("run")
@click.option("--branch", metavar="NAME", help="The branch to make; by default midstream/RUN.")
@takes(*RUNS)
def fetch(options: Options, run: str, branch: str | None) -> int:
    """Make a git branch of what a run of a repository has made, in the checkout you are in.

    One commit on top of the run's own. Your files, your index and the branch you are on stay as they are.
    """
    from midstream.runtime.places import last_keeps, placement_of
    from midstream.runtime.run_place import words_of
    from midstream.system.checkout import branch_with, checkout_in

    async def work(journal: Journal) -> tuple[str, str, str]:
        kept = await found(journal.store, run)
        placement = placement_of(kept)
        if placement is None:
            raise UserMistake(
                f"Run {kept.id} is of a folder, not of a repository: its files are there.",
                hint=f"They are in {kept.summary.workspace}.",
            )
        packs = await last_keeps(journal.store, journal.store, kept)
        words = words_of(await opened(journal.store, kept.id))
        name = branch or f"midstream/{kept.id}"
        made = partial(
            branch_with,
            *(
                checkout_in(options.workspace),
                placement.repository,
                placement.commit,
                packs,
            ),
            branch=name,
            words=words,
            at=kept.summary.started_at,
        )
        return kept.id, name, await in_thread(made)

    id, name, commit = with_journal(options, work)
    answer(
        options,
        {"type": "fetched", "run": id, "branch": name, "commit": commit},
        f"The branch {name} has it: {commit[:12]}. Look at it with: git diff ...{name}",
    )
    return FINISHED
