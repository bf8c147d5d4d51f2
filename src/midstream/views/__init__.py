"""What is shown of a run and of a workflow: words, lines, tables and pictures made of values. Pure.

Begin with `run_status` (where a run stands), `lanes` (who is at work in it), `turns` (what was said)
and `listing` (a run on one line). `graph` is a workflow's machine as data, `graph_layout` where its
boxes stand; `graph_painters` draw that as text and SVG, and say the machine in Mermaid and DOT. What
they share is how text is measured (`cells`) and how numbers are said (`amounts`).
"""
