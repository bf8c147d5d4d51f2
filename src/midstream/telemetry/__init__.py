"""Traces and figures of runs for OpenTelemetry, made of nothing but journaled facts.

A span is what a run had under way: it begins with the fact after which something is owed, asked or open,
and ends with the fact after which it is so no longer. Its id follows from the run and that first fact, its
times are those of the facts. So whoever makes the spans of a run, live, later, twice or in another process,
makes the same ones; a run that was killed and went on is one trace, and what was in flight meanwhile is one
span that ends when it ends.

Begin with `names` (what everything is called, by the conventions), then `under_way` (what stands open in a
run), `spans` (facts to spans and figures) and `content` (words, where they are asked for). `otlp`
writes it all as OTLP, `sending` brings that to a collector, `live` does so while runs run. Nothing here is
imported unless somebody asked for it, and no library of OpenTelemetry is needed.
"""
