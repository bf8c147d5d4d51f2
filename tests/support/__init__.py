"""What our own tests share: scripted providers and their rules, and the reference workflows.

A provider: `openai_server`, and `dialect_server` for Anthropic and Google, on `model_server`; what each
would refuse is in `*_rules`, asked through `dialects`. The reference workflows are 42 small runs that
meet everything a run can meet: `reference`, played by `stage`.

`store_contracts` are what every store keeps; `memory_pool` is one that workers share.

`events_page` writes the reference of events, `docs/events.md`, from the types.
"""
