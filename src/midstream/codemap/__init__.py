"""A map of a folder of code, for somebody who has never seen it, and its figures.

Begin at `map_builder` and `code_figures`. A map shows first what the rest imports most and what has
changed often of late, within so many characters: `source_files` lists and reads what there is, `ranking`
looks at each file and puts them in order, `file_imports` says which imports which, `definitions` what
they define, `map_text` chooses what there is room for and writes the lines.

Reading many files is slow and pure Python, so it runs in a child process (`python -m
midstream.codemap`): the prompt keeps its processor, and a stop is a kill. The same files and history
give the same map and the same figures. The libraries it needs are an extra: `midstream[code]`.
"""
