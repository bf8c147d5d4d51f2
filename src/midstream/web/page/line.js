// The line at the bottom. Nothing typed into it is lost: each key is kept in this browser, and a line that
// was sent is kept until the server has taken it. It goes out with the same id however often it is tried,
// and the run takes an id once; so cut off, reloaded or killed, it arrives exactly once.

import * as cards from "./cards.js";
import { hasWords, toEnd } from "./conversation.js";
import { newId, post } from "./server.js";
import { at, el, fill } from "./text.js";

const field = at("line");
let run = "";
let isBegun = false;  // whether the line has a first key, so that `seen` stands
let begunWith = { seen: [], focused: "" };

// --- kept in this browser ----------------------------------------------------------------------------

const nameOf = (kind) => `midstream:${kind}:${run}`;

function kept(kind, otherwise) {
  try {
    // A line that is begun is first of all this page's: another one may have begun its own.
    return JSON.parse((kind === "draft" && sessionStorage.getItem(nameOf(kind))) || localStorage.getItem(nameOf(kind))) ?? otherwise;
  } catch {
    return otherwise;
  }
}

function keep(kind, value) {
  try {
    for (const place of kind === "draft" ? [localStorage, sessionStorage] : [localStorage]) {
      if (value && (value.text || value.length)) place.setItem(nameOf(kind), JSON.stringify(value));
      else place.removeItem(nameOf(kind));
    }
  } catch {
    fill(at("will"), "This browser keeps nothing: what you type is lost with the page.");
  }
}

// --- what is typed ------------------------------------------------------------------------------------

/** Begin with another run. */
export function begin(id) {
  run = id;
  const draft = kept("draft", { text: "" });
  field.value = draft.text;
  isBegun = Boolean(draft.text);
  begunWith = { seen: draft.seen ?? [], focused: draft.focused ?? "" };
  fill(at("will"), "");
  grow();
  showWaiting();
  deliver();
}

const onScreen = () => ({ seen: cards.shown(), focused: cards.focused() });

field.addEventListener("input", () => {
  // Which questions a line can answer is settled at its first key.
  if (!isBegun && field.value) begunWith = onScreen();
  isBegun = Boolean(field.value);
  keep("draft", { text: field.value, ...begunWith });
  grow();
  askSoon();
});

function grow() {
  field.style.height = "auto";
  field.style.height = `${Math.min(field.scrollHeight + 2, innerHeight * 0.4)}px`;
}

field.addEventListener("keydown", (event) => {
  if (event.key !== "Enter" || event.shiftKey || event.altKey || event.isComposing) return;
  event.preventDefault();
  if (!event.repeat) send();
});
at("line-form").addEventListener("submit", (event) => {
  event.preventDefault();
  send();
});
at("verbs").addEventListener("click", (event) => {
  const policy = event.target.closest("button")?.dataset.policy;
  if (policy) send(policy);
});

function clear() {
  field.value = "";
  isBegun = false;
  keep("draft", null);
  grow();
  askSoon();
}

// --- what Enter will do -------------------------------------------------------------------------------

let asking = 0;
let latest = 0;

/** Ask the server for its sentence about what Enter would do, a moment from now. */
export function askSoon() {
  clearTimeout(asking);
  asking = setTimeout(ask, 120);
}

async function ask() {
  const number = ++latest;
  const of = run;
  try {
    const { sentence } = await post(`/runs/${run}/will`, { text: field.value, ...(isBegun ? begunWith : onScreen()) });
    if (number === latest && of === run) fill(at("will"), sentence);
  } catch (error) {
    if (number === latest && of === run) fill(at("will"), error.isAway ? "Enter keeps the line here and sends it when midstream is back." : error.words);
  }
}

// --- sending ------------------------------------------------------------------------------------------

function send(policy) {
  const text = field.value;
  if (!text.trim()) return;
  const out = kept("out", []);
  out.push({ id: newId(), text, ...begunWith, ...(policy ? { policy } : {}) });
  keep("out", out);
  clear();
  showWaiting();
  toEnd();  // what was said is seen, and what comes of it
  deliver();
}

/** Change one line that waits, or drop it (null), wherever else the list was changed meanwhile. */
function change(id, more) {
  const out = kept("out", []).flatMap((entry) => (entry.id !== id ? [entry] : more ? [{ ...entry, ...more }] : []));
  keep("out", out);
  showWaiting();
}

const taken = new Map();  // what this page said, by id: an answer may be found not to fit after its receipt
addEventListener("midstream-fate", ({ detail: { disposition, input_id: id, text } }) => {
  const said = disposition === "rejected" && taken.get(id);
  if (said && taken.delete(id)) back(said, text);
});

/** Keep a line that had no effect, with the reason. Said again it is another one. */
function back(said, reason) {
  const others = kept("out", []).filter(({ id }) => id !== said.id);
  keep("out", [...others, { ...said, id: newId(), problem: reason || "It was not taken." }]);
  showWaiting();
}

let isDelivering = false;

/** Send what waits, the oldest first. What was refused stays, with the reason. */
export async function deliver() {
  if (isDelivering || !run) return;
  isDelivering = true;
  const of = run;
  try {
    for (;;) {
      const next = kept("out", []).find(({ problem }) => !problem);
      if (!next || of !== run) return;
      if (hasWords(next.id)) {
        change(next.id, null);
        continue;
      }
      try {
        const { problem, ways, ...said } = next;
        const receipt = await post(`/runs/${of}/say`, said);
        if (of !== run) return;
        if (receipt.handling === "reject") {
          back(said, receipt.reason);
        } else {
          taken.set(next.id, said);
          change(next.id, null);
        }
      } catch (error) {
        if (error.isAway || error.status === 401 || of !== run) return;
        const { choices, question = "", workflow } = error.body ?? {};
        const ways = choices
          ? [["It is the answer", { as: "answer", question }], ["It is a new instruction", { as: "say" }]]
          : workflow?.map((which) => [`Go on with the ${which} workflow`, { workflow: which }]);
        change(next.id, { problem: error.words || String(error), ways });
      }
    }
  } finally {
    isDelivering = false;
    if (of !== run) deliver();
    askSoon();
  }
}
addEventListener("midstream-back", deliver);
addEventListener("midstream-words", ({ detail: id }) => kept("out", []).some((entry) => entry.id === id) && change(id, null));
setInterval(() => kept("out", []).length && deliver(), 3000);
// Another page of this browser has said or taken back what stands here, too.
addEventListener("storage", ({ key }) => key === nameOf("out") && showWaiting());

function showWaiting() {
  fill(
    at("waiting"),
    kept("out", []).map((entry) => {
      const again = (more) => () => (change(entry.id, { problem: "", ways: null, ...more }), deliver());
      const button = (words, act) => el("button", { type: "button", class: "quiet", onclick: act }, words);
      const edit = () => {
        field.value = [entry.text, field.value].filter(Boolean).join("\n");
        change(entry.id, null);
        field.dispatchEvent(new Event("input"));
        field.focus();
      };
      const ways = (entry.ways ?? [["Try again", {}]]).map(([words, more]) => button(words, again(more)));
      return el(
        "div",
        { class: "unsent", role: entry.problem ? "alert" : "status" },
        el("p", { class: "plain" }, entry.text),
        el("p", { class: "muted" }, entry.problem || "Not sent yet. It is kept here and goes out once midstream takes it."),
        entry.problem ? el("div", { class: "buttons" }, ways, button("Edit", edit), button("Drop", () => change(entry.id, null))) : null,
      );
    }),
  );
}

/** Show the other ways to say it while there is something to interrupt. */
export function isBusy(busy) {
  at("verbs").hidden = !busy;
}
