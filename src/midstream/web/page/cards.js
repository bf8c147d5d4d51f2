// The open questions: forms, and approvals. Nothing here takes the focus by itself, and a button counts only
// where it was pressed, by a person, at least `FRESH` after the card stood where it stands: whoever types or
// clicks while a card comes up has decided nothing.

import { diff } from "./conversation.js";
import { fieldsOf } from "./form.js";
import { newId, post } from "./server.js";
import { at, el, fill } from "./text.js";

const FRESH = 400;
const cards = new Map();
let run = "";
let drawnAt = 0;
let changed = () => {};

/** Begin with another run; `whenChanged` is called once something was decided. */
export function begin(id, whenChanged) {
  run = id;
  changed = whenChanged;
  cards.clear();
  at("cards").replaceChildren();
}

/** The ids of the questions on the screen. */
export const shown = () => [...cards.keys()];

/** The question whose card has the focus, or had it last before the line had it. */
export const focused = () => [...cards].find(([, card]) => card.node.classList.contains("picked"))?.[0] ?? "";

/** Show these questions and no others. Cards that stay keep what was typed into them. */
export function show(questions) {
  const asked = questions.filter(({ kind }) => kind !== "input");
  const before = shown().join("\n");
  for (const [id, card] of cards) {
    const now = asked.find((question) => question.id === id);
    if (!now || now.digest !== card.digest) card.node.remove(), cards.delete(id);
  }
  for (const question of asked) {
    if (cards.has(question.id)) continue;
    const node = question.kind === "approval" ? approval(question) : form(question);
    node.addEventListener("focusin", () => cards.forEach((card) => card.node.classList.toggle("picked", card.node === node)));
    cards.set(question.id, { node, digest: question.digest });
    at("cards").append(node);
  }
  if (shown().join("\n") !== before) freshen();
  at("cards").hidden = !cards.size;
}

// Any change moves what stands below it, under a finger that was on its way elsewhere.
const freshen = () => requestAnimationFrame(() => (drawnAt = performance.now()));
document.addEventListener("visibilitychange", () => document.hidden || freshen());
addEventListener("focus", freshen);
addEventListener("resize", freshen);

/** A button that a person has to press afresh. */
function decides(label, kind, act) {
  const button = el("button", { type: "button", class: kind }, label);
  let pressedAt = null;
  const press = (event) => (pressedAt = event.repeat ? -Infinity : event.timeStamp);
  button.addEventListener("pointerdown", press);
  button.addEventListener("keydown", (event) => ["Enter", " "].includes(event.key) && press(event));
  button.addEventListener("click", (event) => {
    const pressed = pressedAt ?? event.timeStamp;
    pressedAt = null;
    if (event.isTrusted && drawnAt && pressed - drawnAt >= FRESH) act();
    else note(button, "That was too soon after this came up. Look at it, then press again.");
  });
  return button;
}

const note = (inside, words) => fill(inside.closest(".card").querySelector(":scope > .problem"), words);

function card(question, kind, ...children) {
  const title = `card${question.number}-${cards.size}-title`;
  return el(
    "section",
    { class: `card ${kind}`, "aria-labelledby": title, tabindex: -1 },
    el("h3", { id: title }, question.heading || (kind === "approval" ? "May it?" : "A question")),
    children.flat(),
    el("p", { class: "problem", role: "alert" }),
  );
}

async function send(node, path, body, refused = () => false) {
  const buttons = [...node.querySelectorAll("button")];
  buttons.forEach((button) => (button.disabled = true));
  note(node.firstChild, "");
  try {
    const receipt = await post(`/runs/${run}/${path}`, body);
    if (receipt.handling === "reject") throw Object.assign(new Error(receipt.reason), { words: receipt.reason, body: receipt });
    at("line").focus({ preventScroll: true });
    changed();
  } catch (error) {
    const words = error.words ?? String(error);
    if (!refused(error, words)) note(node.firstChild, words);
    if (error.status === 409) changed();
  } finally {
    buttons.forEach((button) => (button.disabled = false));
  }
}

// --- questions ---------------------------------------------------------------------------------------

function form(question) {
  const schema = question.choices?.length ? { type: "string", enum: question.choices } : (question.schema ?? { type: "string" });
  const fields = fieldsOf(schema, { label: question.schema?.title ?? "Answer" });
  // Sent again it is the same answer: the id is that of what was filled in.
  let sent = { value: "", id: "" };
  const answer = (event) => {
    event.preventDefault();
    const value = fields.value();
    fields.clear();
    const text = JSON.stringify(value);
    if (text === undefined) return void (fields.refused("", "Nothing is filled in yet.") || note(node.firstChild, "Nothing is filled in yet."));
    if (sent.value !== text) sent = { value: text, id: newId() };
    send(node, "answer", { question: question.id, value, id: sent.id }, (error, words) => {
      if (!error.isAway) sent = { value: "", id: "" };
      return refused(words, error.body?.field);
    });
  };
  // An answer is looked at once it is journaled; what comes of it may be told after the receipt.
  const refused = (words, place = placeIn(words)) => fields.refused(place, words);
  const node = card(
    question,
    "question",
    el("p", { class: "plain" }, question.text),
    el("form", { onsubmit: answer, novalidate: true }, fields.node, el("div", { class: "buttons" }, el("button", { type: "submit", class: "main" }, "Answer"))),
  );
  node.refused = (id, words) => id === sent.id && ((sent = { value: "", id: "" }), refused(words));
  return node;
}

addEventListener("midstream-fate", ({ detail: { disposition, input_id: id, text } }) => {
  if (disposition === "rejected") cards.forEach((card) => card.node.refused?.(id, text || "It does not fit."));
});

/** The field a refusal names, as in `$.who.age: ...`. */
const placeIn = (words) => words.match(/\$\.([\w.-]+?)[:\s]/)?.[1] ?? "";

// --- approvals -----------------------------------------------------------------------------------------

function approval(question) {
  const say = el("input", { type: "text", autocomplete: "off", id: `note-${question.number}`, placeholder: "why not, for the agent" });
  const decide = (granted, more = {}) => () =>
    send(node, "approve", { question: question.id, granted, for_run: false, note: granted ? "" : say.value, digest: question.digest, ...more });
  const isPlan = question.about === "plan";
  const grants = question.for_run ?? [];
  const yes = isPlan
    ? [decides("Yes, and ask before changes", "main", decide(true, { mode: "ask" })), decides("Yes, in auto", "quiet", decide(true, { mode: "auto" }))]
    : [decides("Yes, once", "main", decide(true)), decides("Yes, for this run", "quiet", decide(true, { for_run: true }))];
  const node = card(
    question,
    "approval",
    body(question),
    question.why ? el("p", { class: "muted" }, `Asked because: ${question.why}`) : null,
    !isPlan && grants.length ? el("p", { class: "muted" }, "A yes for this run allows: ", grants.join("; ")) : null,
    el("div", { class: "buttons" }, ...yes, decides("No", "warm", decide(false)), el("label", { class: "note-field", for: say.id }, el("span", { class: "unseen" }, "Why not, for the agent"), say)),
  );
  return node;
}

/** What would be done, whole: nothing is cut, so what is long scrolls. */
function body(question) {
  const { text = "", diff: change, command } = question;
  const isDiff = /^@@ /m.test(text) && /^[+-]/m.test(text);
  return [
    change ? [el("p", { class: "plain" }, text), diff(change)] : isDiff ? diff(text) : el("pre", { class: "exact", tabindex: 0 }, text),
    command && !text.includes(command) ? el("pre", { class: "exact", tabindex: 0 }, command) : null,
  ].flat();
}

/** Go to the first card, for who asks to. */
export function focusFirst() {
  const first = cards.values().next().value?.node;
  (first?.querySelector("input, textarea, button") ?? first)?.focus();
}
