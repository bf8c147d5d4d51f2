"""midstream in an editor: the agent's side of the Agent Client Protocol, over the public API.

Begin with `door` (`Door`: what an editor may ask, method by method, and which session it is for); `session`
is one run as an editor talks to it, `updates` what of a run's events an editor is shown, `asking` how a
person is asked there, `options` what they can choose, `own_commands` what a line with a slash does,
`open_files` what their editor has unsaved, `version_2` the same in the words of the protocol's next
version. The wire and the messages are in `midstream.agents`. Nothing here is imported before
`midstream acp` runs, and the engine not before a session begins: an editor waits for the answer to
`initialize`.
"""
