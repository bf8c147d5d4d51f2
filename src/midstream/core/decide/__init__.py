"""decide(run, input): what does this make true? Begin with `decide`: who judges which input.

`steering` judges a person's words and halts; `transitions` says where a run goes, `states` begins the
work of a state, takes its end, and goes on with what needs nobody. All of them add facts to a
`transaction`, which folds each at once, so that the next line sees the run after it.
"""
