"""apply(run, fact): how things stand after one more fact, by what the fact is about.

Begin with `apply`: its table says who folds which fact. Nothing is judged here: a fact is true, live and on
replay. `fold_states` enters states and goes through their phases, `fold_turns` and `fold_work` take what
agents and other work came to, `fold_halts` the user's words and where they cut, `fold_questions`,
`fold_contexts` and `fold_branches` the rest.
"""
