// The page's way to the server: requests, and the two streams. Whoever is cut off says so and tries again.

import { at, fill } from "./text.js";

/** What the server refused. `status` 0: it could not be reached, so that nobody knows what became of it. */
export class Refused extends Error {
  constructor(status, body) {
    super(body.error ?? `The server answered ${status}.`);
    this.status = status;
    this.hint = body.hint ?? "";
    this.body = body;
  }
  get words() {
    return this.hint ? `${this.message} ${this.hint}` : this.message;
  }
  /** Whether to try the same again later: nobody has judged it. */
  get isAway() {
    return this.status === 0 || this.status === 502 || this.status === 503 || this.status === 504;
  }
}

async function asked(path, options = {}) {
  let answer;
  try {
    answer = await fetch(`/api${path}`, { credentials: "same-origin", redirect: "error", ...options });
  } catch {
    throw new Refused(0, { error: "midstream cannot be reached.", hint: "What you typed is kept." });
  }
  const body = await answer.json().catch(() => ({}));
  if (answer.ok) return body;
  const refused = new Refused(answer.status, body && typeof body === "object" ? body : {});
  if (answer.status === 401) unknown();
  throw refused;
}

export const get = (path) => asked(path);
export const post = (path, body = {}) =>
  asked(path, { method: "POST", headers: { "content-type": "application/json" }, body: JSON.stringify(body) });

/** A new id: what is asked again with it is done once. */
export const newId = () => Array.from(crypto.getRandomValues(new Uint8Array(16)), (n) => n.toString(16).padStart(2, "0")).join("");

// --- whether we are connected ----------------------------------------------------------------

const away = new Set();
let isUnknown = false;
let hiding = 0;

function say(words, kind) {
  clearTimeout(hiding);
  const bar = at("connection");
  bar.className = kind;
  bar.hidden = false;
  fill(bar, words);
}

function unknown() {
  isUnknown = true;
  say("This browser is not let in any more: midstream was started anew. Open the address it shows now; what you typed here is kept and goes on then.", "cut");
}

function lost(stream) {
  if (isUnknown) return;
  if (!away.size) {
    const clock = new Date().toLocaleTimeString([], { hour: "2-digit", minute: "2-digit" });
    say(`Cut off from midstream since ${clock}. Trying again; what you type is kept here.`, "cut");
  }
  away.add(stream);
}

function found(stream) {
  const wasAway = away.delete(stream);
  if (isUnknown || (wasAway && !away.size)) {
    isUnknown = false;
    say("Connected again.", "back");
    hiding = setTimeout(() => (at("connection").hidden = true), 4000);
    dispatchEvent(new Event("midstream-back"));
  }
}

/**
 * Listen to a stream for as long as the page is looked at; return what ends that.
 *
 * A browser has six connections to a server, for all of its pages: one that nobody looks at gives its own back,
 * and goes on where it was once somebody does.
 * EventSource says where it was (Last-Event-ID) by itself where the connection breaks. Where the server
 * answered with an error it gives up, so there it is begun anew, with `since` saying the same.
 */
export function listen(path, handlers, { since = () => 0, opened = () => {} } = {}) {
  const stream = {};
  let source = null;
  let again = 0;
  const open = () => {
    const from = since();
    source?.close();
    source = new EventSource(`/api${path}${from ? `?since=${from}` : ""}`);
    source.onopen = () => {
      found(stream);
      opened();
    };
    source.onerror = () => {
      lost(stream);
      if (source.readyState !== EventSource.CLOSED) return;
      asked(path.replace(/\/events$/, "")).catch(() => {});  // tells a missing cookie from a server that is away
      clearTimeout(again);
      again = setTimeout(open, 1500);
    };
    for (const [name, handle] of Object.entries(handlers)) {
      source.addEventListener(name, (event) => handle(JSON.parse(event.data), event));
    }
  };
  const turned = () => {
    clearTimeout(again);
    if (document.hidden) source?.close();
    else open();
  };
  document.addEventListener("visibilitychange", turned);
  if (!document.hidden) open();
  return () => {
    document.removeEventListener("visibilitychange", turned);
    clearTimeout(again);
    source?.close();
    if (away.delete(stream) && !away.size && !isUnknown) at("connection").hidden = true;
  };
}
