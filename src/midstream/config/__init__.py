"""Settings, roles and workflows in layers, where they live, and whom to trust.

Begin with `manager` (`ConfigManager`): the layers put together. `settings` reads an
application.json without ever failing, `directories` says where files live, `trust` which of a
workspace's may be acted on; `portable` is what the systems spell differently.
"""
