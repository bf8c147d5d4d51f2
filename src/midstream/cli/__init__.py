"""The command line: one module a family of commands, and starting what each of them needs.

Begin with `main`: the group, and what a bare `midstream` does. `headless` is work without a person.
"""
