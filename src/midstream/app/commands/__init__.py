"""Commands: lines that start with a slash, in every mode and at every moment.

Begin with `handler` (`CommandHandler`): it finds the command a line names, and is `/help`. `command`
says what a command is, `table` lists all of them and the groups people are shown. Each command is an
async function of the `Session` (`midstream.app.session`) below its words, in the file of what it is about:
to add one, write it there and give it a place in the groups of `table`.
"""
