"""Models: every provider behind the port `Model`, and the offline model that is no LLM.

Begin with `api_client` (`AIAPIClient`): one request, from a level to the reply. `endpoints` says
where a provider is asked, `openai_chat` and `anthropic_messages` speak the two protocols over
`http_stream`, `pydantic_ai` brings in all others. `provider_errors` says what went wrong and what a
person can do.
"""
