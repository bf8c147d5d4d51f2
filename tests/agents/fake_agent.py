"""A program that speaks the Agent Client Protocol, well or badly: `python fake_agent.py MANNER...`.

What it does with a prompt is the prompt's first word; what it is from the beginning is said by its manners.
It is a program of its own: nothing of midstream is in it.
"""

import json
import os
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any

MANNERS = set(sys.argv[1:])
FILE = Path("fake_agent.sessions")
WAITING: dict[Any, dict[str, Any]] = {}
CANCELLED = threading.Event()
HEARD = threading.Condition()
LOCK = threading.Lock()
NEXT = iter(range(1, 1_000_000))


def send(message: dict[str, Any]) -> None:
    with LOCK:
        sys.stdout.write(json.dumps({"jsonrpc": "2.0", **message}) + "\n")
        sys.stdout.flush()


def raw(text: str) -> None:
    with LOCK:
        sys.stdout.write(text)
        sys.stdout.flush()


def ask(method: str, params: dict[str, Any]) -> dict[str, Any]:
    id = next(NEXT)
    send({"id": id, "method": method, "params": params})
    with HEARD:
        HEARD.wait_for(lambda: id in WAITING)
        return WAITING.pop(id)


def update(session: str, what: str, /, **fields: Any) -> None:
    params = {"sessionId": session, "update": {"sessionUpdate": what, **fields}}
    send({"method": "session/update", "params": params})


def say(session: str, text: str, **fields: Any) -> None:
    update(session, "agent_message_chunk", content={"type": "text", "text": text}, **fields)


def permission(session: str, call: dict[str, Any], *kinds: str) -> dict[str, Any]:
    options = [{"optionId": f"id-{kind}", "name": kind, "kind": kind} for kind in kinds]
    asked = {"sessionId": session, "toolCall": call, "options": options}
    outcome: dict[str, Any] = ask("session/request_permission", asked)["result"]["outcome"]
    return outcome


def play(id: Any, session: str, text: str) -> None:
    """Do with a prompt what its first word says."""
    word, _, rest = text.partition(" ")
    result: dict[str, Any] = {"stopReason": "end_turn"}
    match word:
        case "say":
            for piece in rest.split("|"):
                say(session, piece)
        case "usage":
            say(session, "counted")
            update(
                session, "usage_update", used=5, size=100, cost={"amount": 0.25, "currency": "USD"}
            )
            result["usage"] = {"totalTokens": 12, "inputTokens": 7, "outputTokens": 5}
        case "owed":
            result["usage"] = {"totalTokens": 0, "inputTokens": -9, "outputTokens": 10**18}
        case "quota":
            result["_meta"] = {"quota": {"token_count": {"input_tokens": 3, "output_tokens": 2}}}
        case "call":
            say(session, "I look.")
            update(session, "tool_call", toolCallId="1", title="bash", kind="execute", rawInput={})
            command: dict[str, Any] = {"command": "make test"}
            update(
                session, "tool_call_update", toolCallId="1", status="in_progress", rawInput=command
            )
            blocks: list[Any] = [
                {"type": "content", "content": {"type": "text", "text": "all is well"}}
            ]
            update(session, "tool_call_update", toolCallId="1", status="completed", content=blocks)
            say(session, "It is well.")
        case "odd":
            update(
                session,
                "tool_call",
                toolCallId="1",
                title="x",
                kind="dance",
                content=[{"type": "?"}],
                locations=[{"path": "a"}, 7],
            )
            update(session, "dream", of="sheep")
            update("another", "agent_message_chunk", content={"type": "text", "text": "not mine"})
            send({"id": 777, "result": {}})
            send({"id": "x", "error": 5})
            raw('this is a line of a log\n[1, 2]\n\n{"a": NaN}\n')
            raw('{"jsonrpc": "2.0", "method": "session/update", "params": ' + "[" * 5000 + "\n")
            say(session, "still here")
        case "may":
            call = {"toolCallId": "1", "title": "rm -rf /tmp/x", "kind": "execute"}
            say(session, permission(session, call, *rest.split()).get("optionId", "cancelled"))
        case "may-then":
            update(
                session,
                "tool_call",
                toolCallId="1",
                title="ls",
                kind="execute",
                rawInput={"command": "ls"},
            )
            other: dict[str, Any] = {
                "toolCallId": "1",
                "title": "rm x",
                "rawInput": {"command": "rm x"},
            }
            permission(session, other, "allow_once", "reject_once")
        case "read":
            say(session, json.dumps(ask("fs/read_text_file", {"sessionId": session, "path": rest})))
        case "write":
            path, _, content = rest.partition(" ")
            asked = {"sessionId": session, "path": path, "content": content}
            say(session, json.dumps(ask("fs/write_text_file", asked)))
        case "elsewhere":
            say(session, json.dumps(ask("fs/read_text_file", {"sessionId": "other", "path": "x"})))
            say(
                session, json.dumps(ask("terminal/create", {"sessionId": session, "command": "sh"}))
            )
        case "wait":
            say(session, "waiting")
            CANCELLED.wait()
            say(session, " after the cancel")
            result["stopReason"] = "cancelled"
        case "ask-and-wait":
            call = {"toolCallId": "1", "title": "rm x", "kind": "execute"}
            outcome = permission(session, call, "allow_once", "reject_once")
            Path("outcome").write_text(json.dumps(outcome))
            result["stopReason"] = "cancelled"
        case "deaf":
            child = subprocess.Popen(
                [sys.executable, "-c", "import time; print(1, flush=True); time.sleep(10_000)"],
                stdout=subprocess.PIPE,
                start_new_session=True,
            )
            assert child.stdout is not None
            child.stdout.readline()
            say(session, f"{os.getpid()} {child.pid}")
            threading.Event().wait()
        case "die":
            say(session, "half a wo")
            print("the key is sk-secret-0123456789abcdef0123456789", file=sys.stderr, flush=True)
            os._exit(3)
        case "silent":
            threading.Event().wait()
        case "flood":
            while True:
                say(session, "x" * 1000)
        case "flood-lines":
            while True:
                raw("x\n" * 100_000)
        case "huge-line":
            raw("y" * 20_000_000)
            raw("\n")
            say(session, "after it")
        case "calls":
            for number in range(10_000):
                update(
                    session, "tool_call", toolCallId=str(number), title="t", status="in_progress"
                )
            threading.Event().wait()
        case "escape":
            say(session, "\x1b]0;mine\x07\x1b[2J\u202e\ud800")
        case "stop":
            result["stopReason"] = rest
        case "fail":
            send(
                {
                    "id": id,
                    "error": {
                        "code": -32603,
                        "message": "Internal error",
                        "data": {"details": rest},
                    },
                }
            )
            return
        case "tell":
            now: dict[str, Any] = {
                "text": text,
                "mode": MODES.get(session),
                "manners": sorted(MANNERS),
                "env": dict(os.environ),
            }
            say(session, json.dumps(now))
    send({"id": id, "result": result})


MODES: dict[str, str] = {}
SESSIONS: set[str] = set(FILE.read_text().split()) if FILE.exists() else set()


def answer(message: dict[str, Any]) -> None:
    id, method, params = message.get("id"), message.get("method"), message.get("params") or {}
    if method is None:
        with HEARD:
            WAITING[id] = message
            HEARD.notify_all()
        return
    session = str(params.get("sessionId"))
    if method == "initialize":
        if "mute" in MANNERS:
            return
        able: dict[str, Any] = {
            "loadSession": "loads" in MANNERS,
            "promptCapabilities": {"image": True},
        }
        if "resumes" in MANNERS:
            able["sessionCapabilities"] = {"resume": {}}
        version = 9 if "newer" in MANNERS else 1
        send({"id": id, "result": {"protocolVersion": version, "agentCapabilities": able}})
    elif method == "session/new":
        if "login" in MANNERS:
            send({"id": id, "error": {"code": -32000, "message": "Authentication required"}})
            return
        name = f"s{os.getpid()}-{len(SESSIONS)}"
        SESSIONS.add(name)
        FILE.write_text("\n".join(SESSIONS))
        MODES[name] = "auto"
        modes = {"currentModeId": "auto", "availableModes": []}
        send({"id": id, "result": {"sessionId": name, "modes": modes}})
    elif method in ("session/load", "session/resume"):
        if session not in SESSIONS:
            send({"id": id, "error": {"code": -32002, "message": "no such session"}})
            return
        if method == "session/load":
            say(session, "what was said before")
        send({"id": id, "result": {}})
    elif method == "session/set_mode":
        MODES[session] = params["modeId"]
        send({"id": id, "result": {}})
    elif method == "session/cancel":
        CANCELLED.set()
    elif method == "session/prompt":
        CANCELLED.clear()
        text = params["prompt"][0]["text"]
        threading.Thread(target=play, args=(id, session, text), daemon=True).start()


for line in sys.stdin:
    answer(json.loads(line))
if "stays" in MANNERS:
    threading.Event().wait()
os._exit(0)
