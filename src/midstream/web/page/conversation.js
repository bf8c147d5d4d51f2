// The conversation of a run as it goes: who said what, what was done, in the order in which it happened.
//
// Items are facts and come once each; `seq` says which, so that what comes again after a break is left out.
// Text that streams stands in an article of its own at the end, which becomes the item once the reply is
// whole: nothing jumps. The page follows the end only while it is at the end.

import { draw } from "./markdown.js";
import { at, clock, el, fill, put } from "./text.js";

const box = at("conversation");
const items = at("items");

let run = null;  // what belongs to the run on the screen

/** Forget what is shown, and begin with another run. */
export function begin() {
  items.replaceChildren();
  at("said").replaceChildren();
  run = { seen: 0, heardFrom: Infinity, live: new Map(), calls: new Map(), words: new Map(), asked: new Map(), queue: [], until: null };
  isAtEnd = true;
  scrolledTo = 0;
  at("new-below").hidden = true;
}

/** The number of the last fact that was shown. */
export const seen = () => run.seen;

/** Whether words with this id stand in the conversation. */
export const hasWords = (id) => run.words.has(id);

/** From now on what is new is said to who cannot see it; what was there before is not read out. */
export const caughtUpAt = (seq) => {
  if (run.heardFrom === Infinity) run.heardFrom = seq;
};

// --- frames ------------------------------------------------------------------------------------

let isDue = false;

/** Do something at the next frame, with what else has come by then. */
function soon(what) {
  run.queue.push(what);
  if (isDue) return;
  isDue = true;
  // A page nobody looks at has no frames, but it goes on.
  if (document.hidden) setTimeout(frame, 100);
  else requestAnimationFrame(frame);
}

function frame() {
  isDue = false;
  for (const what of run.queue.splice(0)) what();
  for (const [key, live] of run.live) if (live.isNew) drawLive(key, live);
  follow();
}

// --- following the end -----------------------------------------------------------------------------

let isAtEnd = true;
let scrolledTo = 0;

const follow = () => {
  if (isAtEnd) box.scrollTop = box.scrollHeight;
  else at("new-below").hidden = run.until !== null;
};
box.addEventListener("scroll", () => {
  // Only who scrolls up leaves the end: a card may have come since the page went there.
  isAtEnd = box.scrollHeight - box.scrollTop - box.clientHeight < 32 || (isAtEnd && box.scrollTop >= scrolledTo);
  scrolledTo = box.scrollTop;
  if (isAtEnd) at("new-below").hidden = true;
}, { passive: true });
new ResizeObserver(() => isAtEnd && (box.scrollTop = box.scrollHeight)).observe(box);
at("new-below").addEventListener("click", readAtEnd);

/** Go to the end and stay there. */
export function toEnd() {
  isAtEnd = true;
  at("new-below").hidden = true;
  box.scrollTop = box.scrollHeight;
}

/** Go there as who reads does: with the keys that scroll. */
export function readAtEnd() {
  toEnd();
  box.focus({ preventScroll: true });
}

// --- for those who listen --------------------------------------------------------------------------

function hear(text) {
  const said = at("said");
  put(said, el("p", {}, text));
  while (said.childNodes.length > 20) said.firstChild.remove();
}

// --- text that streams -----------------------------------------------------------------------------

const keyOf = (item) => `${item.branch ?? ""}\n${item.who ?? ""}`;

/** A piece of text as it streams: of a reply, or of a tool's output. */
export const delta = (piece) => soon(() => (piece.call_id ? progress(piece) : streams(piece)));

function streams(piece) {
  const { text = "", so_far: isAll } = piece;
  if (!text) return;
  const key = keyOf(piece);
  let live = run.live.get(key);
  if (!live) run.live.set(key, (live = { who: piece.who, branch: piece.branch, text: "", thinking: "", calling: "", heard: 0, node: null }));
  const part = piece.thinking ? "thinking" : piece.calling ? "calling" : "text";
  // After a break the whole takes the place of what was there; if it is not to be had, that is said.
  if (isAll) {
    if (part === "text") live.was = textOf(live);
    live[part] = text;
  } else if (live.isCut) live[part] += ` […] ${text}`;
  else live[part] += text;
  live.isCut = false;
  live.isNew = true;
}

/** What is shown of a reply: what a crash left unjournaled was shown all the same, and is not taken away again. */
const textOf = ({ text, was = "" }) => (was.startsWith(text) ? was : text);

/** The connection was broken and is there again: pieces may be missing between. */
export const reconnected = () => soon(() => run.live.forEach((live) => (live.isCut = true)));

function drawLive(key, live) {
  live.isNew = false;
  const text = textOf(live);
  if (!live.node) {
    live.node = article("agent live", live, null);
    items.insertBefore(live.node, firstWaiting());
    live.node.hidden = run.until !== null;
  }
  if (live.thinking && !text) thinkingOf(live.node, live.thinking);
  draw(live.node.body, text);
  if (live.calling) callingOf(live.node, live.calling);
  const whole = text.lastIndexOf("\n") + 1;
  if (whole > live.heard && run.heardFrom !== Infinity) hear(`${live.heard ? "" : `${live.who}: `}${text.slice(live.heard, whole)}`);
  live.heard = Math.max(live.heard, whole);
}

function thinkingOf(node, text) {
  node.thinking ??= node.insertBefore(el("details", { class: "thinking" }, el("summary", {}, "thinking …"), el("p", { class: "plain" })), node.body);
  fill(node.thinking.lastChild, text.slice(-20000));
}

/** Under what it said stands what a reply is about to ask for, until its call is there. */
function callingOf(node, names) {
  node.calling ??= put(node, el("p", { class: "note" })).lastChild;
  fill(node.calling, `is writing a call of ${names} …`);
}

// --- items -------------------------------------------------------------------------------------------

/** Something that happened. */
export function item(it) {
  if (it.seq && it.seq <= run.seen) return;
  if (it.seq) run.seen = it.seq;
  soon(() => {
    const shown = (KINDS[it.kind] ?? KINDS.note)(it);
    if (shown && run.until !== null) shown.hidden = it.seq > run.until;
  });
}

const isHeard = (it) => it.seq > run.heardFrom;

function article(kind, { who, branch, at: time }, seq) {
  const name = [branch ? el("span", { class: "branch" }, `${branch} `) : null, el("b", {}, who || "midstream")];
  const node = el("article", { class: branch ? `${kind} in-branch` : kind, "data-seq": seq ?? 0 }, el("h4", {}, name, time ? clock(time) : null));
  node.body = el("div", { class: "words" });
  put(node, node.body);
  return node;
}

/** Put an item in its place: behind what there is, but before text that still streams and words that wait. */
function add(node, { before = items.querySelector(":scope > .live") ?? firstWaiting() } = {}) {
  items.insertBefore(node, before);
  return node;
}
const firstWaiting = () => items.querySelector(":scope > .waits");

function spoke(it, isCut) {
  const key = keyOf(it);
  const live = run.live.get(key);
  run.live.delete(key);
  if (live?.node) live.node.remove();
  if (!it.text?.trim() && !isCut) return null;
  const whole = it.text ?? "";
  const text = isCut && live ? textOf({ text: whole, was: textOf(live) }) : whole;
  if (!text.trim()) {
    // Nothing had been said: the words that cut it say that they did.
    if (it.note === "interrupted") return null;
    return line("note", it, "✂", `${it.who ? `${it.who}: ` : ""}${it.note || "interrupted"}`);
  }
  const reused = live?.node;
  const node = reused ?? article("agent", it, it.seq);
  node.classList.remove("live");
  node.calling?.remove();
  node.dataset.seq = it.seq;
  if (reused && it.at) put(node.firstChild, clock(it.at));
  draw(node.body, text);
  if (isCut) put(node, el("p", { class: "cut" }, `✂ ${it.note || "interrupted"}`));
  if (isHeard(it)) hear(`${live?.heard ? "" : `${it.who}: `}${text.slice(live?.heard ?? 0)}${isCut ? ` (${it.note || "interrupted"})` : ""}`);
  return add(node);
}

function line(kind, it, mark, ...words) {
  const node = el("div", { class: `${kind}${it.branch ? " in-branch" : ""}`, "data-seq": it.seq ?? 0 }, el("span", { class: "mark", "aria-hidden": "true" }, mark), el("span", {}, it.branch ? el("span", { class: "branch" }, `${it.branch} `) : null, words));
  return add(node);
}

/** One line that unfolds. */
function folded(kind, it, mark, words, detail) {
  const node = el("details", { class: `${kind}${it.branch ? " in-branch" : ""}`, "data-seq": it.seq ?? 0 });
  node.mark = el("span", { class: "mark" }, mark);
  node.words = el("span", { class: "words" }, it.branch ? el("span", { class: "branch" }, `${it.branch} `) : null, words);
  put(node, el("summary", {}, node.mark, node.words));
  // What is not looked at is not made: a call may have read a whole file.
  node.parts = detail ? [detail] : [];
  node.addEventListener("toggle", () => node.open && unfold(node));
  return node;
}

function unfold(node) {
  for (const part of node.parts.splice(0)) put(node, typeof part === "string" ? el("pre", { tabindex: 0 }, part) : part());
}

const MARKS = { completed: ["✓", "done"], unknown: ["?", "outcome unknown"], failed: ["✗", "failed"], not_run: ["–", "not run"], stopped: ["■", "stopped"] };

const FATES = {
  answered: "", interrupted: "interrupted what was at work", steered: "joined the turn under way", queued: "its turn came",
  rejected: "was not taken", withdrawn: "taken back", undelivered: "was not delivered",
};
const HANDLINGS = { interrupt: "interrupts", steer: "joins the turn under way", queue: "waits for its turn" };

const KINDS = {
  user(it) {
    // The answer to a question stands beside the question.
    if (it.handling === "answer" && [...run.asked.values()].some((node) => node.isOpen)) {
      run.words.set(it.input_id, null);
      dispatchEvent(new CustomEvent("midstream-words", { detail: it.input_id }));
      return null;
    }
    // Journaled as they are said, they take effect below what is at work: that comes first until their fate is known.
    const waits = it.handling in HANDLINGS;
    const node = article(waits ? "user waits" : "user", { ...it, who: whoOf(it) }, it.seq);
    put(node.body, el("p", { class: "plain" }, it.text));
    node.fate = put(node, el("p", { class: "fate muted" }, HANDLINGS[it.handling] ?? "")).lastChild;
    if (it.input_id) run.words.set(it.input_id, node);
    dispatchEvent(new CustomEvent("midstream-words", { detail: it.input_id }));
    return add(node, { before: waits ? null : firstWaiting() });
  },
  fate(it) {
    dispatchEvent(new CustomEvent("midstream-fate", { detail: it }));
    const node = run.words.get(it.input_id);
    if (!node) return null;
    fill(node.fate, it.text || (FATES[it.disposition] ?? it.disposition));
    if (node.classList.contains("waits")) {
      node.classList.remove("waits");
      add(node);
    }
    return null;
  },
  agent: (it) => spoke(it, false),
  cut: (it) => spoke(it, true),
  tool(it) {
    const node = folded("tool", it, "…", it.text, it.detail);
    if (it.call_id) run.calls.set(it.call_id, node);
    return add(node);
  },
  result(it) {
    const node = run.calls.get(it.call_id) ?? add(folded("tool", it, "…", it.tool ?? "", null));
    const [mark, words] = MARKS[it.outcome] ?? MARKS.failed;
    fill(node.mark, mark, el("span", { class: "unseen" }, ` ${words}: `));
    node.output?.remove();
    if (it.text) put(node.words, el("span", { class: "muted" }, ` · ${it.text}`));
    if (it.detail) node.parts.push(it.detail);
    if (node.open) unfold(node);
    if (isHeard(it)) hear(`${node.words.textContent} ${words}`);
    return null;
  },
  file(it) {
    const figures = `+${it.added ?? 0} −${it.removed ?? 0}`;
    const node = folded("file", it, "±", [el("span", {}, it.path), el("span", { class: "muted" }, ` ${figures}`)], it.diff ? () => diff(it.diff) : null);
    if (isHeard(it)) hear(`${it.path} changed, ${figures}`);
    return add(node);
  },
  question(it) {
    const question = it.question ?? {};
    const node = folded("asked", it, "?", question.heading || it.text, question.text || it.text);
    node.isOpen = question.kind === "question";
    if (question.id) run.asked.set(question.id, node);
    if (isHeard(it)) hear(`${question.heading ?? ""} ${question.text ?? it.text}`);
    return add(node);
  },
  answered(it) {
    const node = run.asked.get(it.question_id);
    if (!node) return it.text ? line("note", it, "→", it.text) : null;
    node.isOpen = false;
    fill(node.mark, "✓");
    put(node.words, el("span", { class: "muted" }, ` → ${it.text}`));
    return null;
  },
  state: (it) => line("state", it, "→", it.text || it.target),
  todo: () => null,
  output(it) {
    const node = article("agent output", { ...it, who: it.who || "the workflow" }, it.seq);
    draw(node.body, it.text ?? "");
    if (isHeard(it)) hear(it.text);
    return add(node);
  },
  end(it) {
    if (isHeard(it)) hear(it.text);
    // Nothing streams any more: what is left of it was never a reply.
    run.live.forEach((live) => live.node?.remove());
    run.live.clear();
    return line("end", it, "■", it.text);
  },
  note(it) {
    if (!it.text) return null;
    if (isHeard(it)) hear(it.text);
    return it.detail ? add(folded("note", it, "·", it.text, it.detail)) : line("note", it, "·", it.text);
  },
};

const whoOf = ({ who, source }) => (source && !["user", "web", ""].includes(source) ? `You, by ${source}` : who && who !== "user" && who !== "web" ? who : "You");

/** The output of a tool as it comes: the end of it, below its line. */
function progress({ call_id, text }) {
  const node = run.calls.get(call_id);
  if (!node) return;
  node.output ??= put(node.querySelector("summary"), el("pre", { class: "progress" })).lastChild;
  node.outputText = ((node.outputText ?? "") + text).slice(-2000);
  fill(node.output, node.outputText.trimEnd().split("\n").slice(-4).join("\n"));
}

/** A unified diff; each line says by its first sign what it is, the colour only repeats it. */
export function diff(text) {
  const kinds = { "+": "plus", "-": "minus", "@": "place" };
  const rows = text.replace(/\n$/, "").split("\n");
  const first = rows.findIndex((row) => row.startsWith("@@"));  // before it stand the names of the file
  return el("pre", { class: "diff", tabindex: 0 }, rows.map((row, number) => el("span", { class: number < first ? "place" : kinds[row[0]] }, `${row}\n`)));
}

// --- words that wait, and the past ---------------------------------------------------------------------

/** Say of the words that are not delivered yet that they can be taken back. */
export function undelivered(waiting, takeBack) {
  soon(() => {
    const ids = new Set(waiting.map(({ id }) => id));
    for (const [id, node] of run.words) {
      if (!node) continue;
      if (!ids.has(id)) node.back?.remove(), (node.back = null);
      else node.back ??= put(node, el("button", { type: "button", class: "quiet", onclick: () => takeBack(id) }, "Take back")).lastChild;
    }
  });
}

/** Show the conversation as it was after a fact; null: as it is. */
export function showUntil(seq) {
  run.until = seq;
  for (const node of items.children) node.hidden = seq !== null && (Number(node.dataset.seq) > seq || node.classList.contains("live"));
  isAtEnd = true;
  follow();
}

/** What the last item up to a fact says, in a few words. */
export function wordsAt(seq) {
  let last = null;
  for (const node of items.children) {
    // Words that waited stand below what was told after them.
    const isLater = Number(node.dataset.seq) >= Number(last?.dataset.seq ?? 0);
    if (isLater && Number(node.dataset.seq) <= seq && !node.classList.contains("live")) last = node;
  }
  const said = last?.querySelector("summary") ?? last?.body ?? last;
  return (said?.textContent ?? "").trim().replace(/\s+/g, " ").slice(0, 70);
}
