"""What is shown of a run and of a workflow: words, lines, tables and pictures made of values. Pure.

Begin with `run_status` (where a run stands) and `listing` (a run on one line). `graph` is a
workflow's machine as data, `graph_layout` where its boxes stand, `text_drawing` and `svg` two ways
to draw that.
"""
