"""What may happen without asking, and what may be shown or kept: all judged here, by values alone.

Begin with `capability`: each call of a tool is reduced to what it would do. `rules` says which
texts of a person cover which of these, `policy` makes the verdict: allow, ask or deny, with the
reason. `redaction` takes secrets out, `sanitize` what would act on a terminal, `decoding` reads
what is hostile until it has passed there. The edge that looks at files and starts commands is
`midstream.tools`.
"""
