"""A map of a folder of code, for somebody who has never seen it, and its figures.

Begin at `map_builder` and `code_figures`. A map shows first what the rest imports most and what has
changed often of late, within so many characters: `source_files` lists what there is, `scan` looks at
each file, `file_imports` says which imports which, `ranking` puts them in order, `definitions` and
`ctags` read what they define, `packing` chooses what there is room for, `map_text` writes the lines.
The figures are measured by `code_file`, file by file, and `import_graph`.

Reading many files is slow and pure Python, so it runs in a child process (`python -m
midstream.codemap`): the prompt keeps its processor, and a stop is a kill. The same files and history
give the same map and the same figures. The libraries it needs are an extra: `midstream[code]`.
"""
