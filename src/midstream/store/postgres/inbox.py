"""Messages to runs. Numbers come before commits: the undelivered are asked for, never "what is newer"."""

import contextlib
from typing import Final

import msgspec

from midstream.runtime.storage import Mail
from midstream.store.encoding import mail_body
from midstream.store.postgres.life import OFFERED, channel_of
from midstream.store.postgres.link import Connection, Link, Row, rows_of, texts

_MAIL = msgspec.json.Decoder(Mail)

_POST: Final = f"""
with put as (
    insert into midstream.inbox(run, id, body) values (%(run)s, %(id)s, %(body)s)
    on conflict (run, id) do nothing returning body)
select (select body from put), (select owner from midstream.runs where id = %(run)s and seq > 0), (
    select pg_notify('{channel_of("")}' || owner, '') from midstream.runs
    where id = %(run)s and owner not in ('', '-'))
"""  # nosec B608  # a name of ours
"""The owner is called in the same breath: words wait for one flush of the disk, not for two. That words
which are sent at once wait for each other there is all it costs; no append ever calls anybody. The words
are not in the call: whoever is let into the database may listen, and may call.
"""

_SENT: Final = """
from midstream.runs r join midstream.inbox i on i.run = r.id and not i.is_delivered
where r.owner = %(owner)s and r.owner <> ''
"""
"""What is undelivered to the runs of an owner."""


def post(link: Link, mail: Mail) -> Mail:
    """Keep a message, or return the one of that id; wake who has the run, or a worker where nobody has."""
    values = {"run": texts(mail.run), "id": texts(mail.id), "body": mail_body(mail)}
    ((body, owner, _),) = link.rows(_POST, values)
    if body is None:
        # Somebody else's, seen by this statement only if it was there when it began.
        query = "select body from midstream.inbox where run = %(run)s and id = %(id)s"
        ((body,),) = link.rows(query, values)
    if owner is not None and owner == "":
        link.rows("select pg_notify(%(channel)s, '')", {"channel": OFFERED})
    return _MAIL.decode(body)


def deliver(link: Link, run: str, id: str, me: str | None) -> None:
    """Hand a message out no more; nothing is done for `me` who had the run once others have it.

    What that one did with the message is perhaps not in the journal.
    """
    link.rows(
        """
        update midstream.inbox set is_delivered = true
        where run = %(run)s and id = %(id)s and not is_delivered and (%(me)s::text is null or not exists(
            select from midstream.runs r where r.id = %(run)s and r.owner not in ('', '-', %(me)s)))
        """,
        {"run": texts(run), "id": texts(id), "me": me},
    )


def posted(link: Link, run: str) -> list[Mail]:
    """Return every message to a run, the oldest first."""
    query = "select body from midstream.inbox where run = %(run)s order by number"
    return _mails(link.rows(query, {"run": texts(run)}))


def undelivered(link: Link, run: str) -> list[Mail]:
    """Return the undelivered messages to one run, the oldest first."""
    query = (
        "select body from midstream.inbox where run = %(run)s and not is_delivered order by number"
    )
    return _mails(link.rows(query, {"run": texts(run)}))


def mail(link: Link, owner: str) -> list[Mail]:
    """Return the undelivered messages to the runs of a living owner, or of nobody, the oldest first."""
    if owner:
        query = f"select i.body {_SENT} and midstream.lives(%(owner)s) order by i.number"  # nosec B608
    else:
        query = """
            select i.body from midstream.inbox i left join midstream.runs r on r.id = i.run
            where not i.is_delivered
                and (coalesce(r.owner, '') in ('', '-') or not midstream.lives(r.owner))
            order by i.number
        """
    return _mails(link.rows(query, {"owner": owner}))


def mail_of(connection: Connection, me: str) -> list[Mail]:
    """Return the undelivered messages to the runs of this owner, which lives, the oldest first."""
    query = f"select i.body {_SENT} order by i.number"  # nosec B608  # a part of ours
    return _mails(rows_of(connection, query, {"owner": me}))


def has_mail(link: Link, me: str) -> bool:
    """Return whether something undelivered was sent to runs of this owner."""
    query = f"select exists(select {_SENT})"  # nosec B608  # a part of ours
    return bool(link.rows(query, {"owner": me})[0][0])


def _mails(rows: list[Row]) -> list[Mail]:
    """Return the messages of some rows; one that is not what was written is left out."""
    found: list[Mail] = []
    for (body,) in rows:
        with contextlib.suppress(msgspec.MsgspecError, UnicodeDecodeError):
            found.append(_MAIL.decode(body))
    return found
