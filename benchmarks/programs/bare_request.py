"""One streamed request with httpx2 once Enter was pressed: the floor of our first one."""

import json
import os

print("› ", end="", flush=True)
input()

import httpx2  # noqa: E402

client = httpx2.Client(timeout=None)
body = {"model": "bench", "stream": True, "messages": [{"role": "user", "content": "go"}]}
url = os.environ["OPENAI_BASE_URL"] + "/chat/completions"
with client.stream("POST", url, content=json.dumps(body)) as response:
    for line in response.iter_lines():
        print(line, flush=True)
input()
