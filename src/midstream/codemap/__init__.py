"""A map of a folder of code, for somebody who has never seen it, within so many characters.

What it shows first is what the rest leans on most and what has changed often of late. One thought a
file, in the order it is drawn: `seeing` looks at files, `file_imports` of the folder above says
which import which, `ranking` puts them in order, `definitions` reads what they define
(`python_source`, `patterns`, `ctags`), `fitting` chooses what there is room for, `drawing` writes
the lines, `mapping` does all of it.

Reading many files is slow and pure Python, so it runs in a child process (`python -m
midstream.codemap`): the prompt keeps its processor, and a stop is a kill. The same files and
history give the same map.
"""
