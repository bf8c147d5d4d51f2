"""One HTTP server for every door of midstream that speaks HTTP. Begin with `host.py`.

`access.py` judges each request before a door sees it: whose it is, and from which page it comes. `host.py`
makes one application of the doors that are wanted, and serves it until it is told to end.

`openai_chat.py` and `agui.py` are doors for programs: what a request may ask, and how a turn is told.
What OpenAI's two protocols share is in `openai_asked.py` and `openai_turn.py`. Which run a conversation
is, is said by `conversations.py`; a turn as plain words is `words.py`; `answering.py` keeps an eye on
whether the client is still there.

All of it needs the extra `web`, and is imported by the commands that serve alone.
"""
