"""The language of workflow files: what may be written, what is wrong with what was written, what it
means.

Begin with `spec`: the types behind the files. `plan` is what follows from them, for a run. `json_text`
reads a file with places, `shape` says where it does not fit a type, `problem` gathers what is wrong,
`lint` finds every problem of a workflow at once. `expressions` (read), `evaluation` (worked out),
`templates` and `data_paths` are what a run does with texts in it. Nothing here knows runs. `names` and
`errors` have the words and the errors that all packages share.
"""
