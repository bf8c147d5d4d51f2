// What stands beside the conversation: the list of things to do, the machine, what it cost, its data. All of
// it is of one moment: now, or the one the slider stands at.

import * as conversation from "./conversation.js";
import { drawMachine } from "./machine.js";
import { get } from "./server.js";
import { at, el, fill } from "./text.js";

const slider = at("moment");
let run = "";
let latest = null;  // how the run stands
let until = null;  // the fact the slider stands at, null for now
let asking = 0;
let drawn = "";

/** Begin with another run. */
export function begin(id) {
  run = id;
  latest = until = null;
  drawn = "";
  fill(at("machine"));
  travel(false);
}

/** Whether the past is shown. */
export const isPast = () => until !== null;

/** Show how the run stands. */
export function show(status) {
  latest = status;
  slider.max = Math.max(status.seq ?? 0, conversation.seen());
  if (until === null) {
    slider.value = slider.max;
    describe(status);
    machine(null);
  }
  words();
}

function describe(status) {
  const todo = status.todo ?? [];
  at("todo-box").hidden = !todo.length;
  const marks = { pending: ["☐", "to do"], doing: ["▸", "being done"], done: ["☑", "done"] };
  fill(
    at("todo"),
    todo.map((item) => {
      const [mark, said] = marks[item.status] ?? marks.pending;
      return el("li", { class: item.status === "done" ? "done" : item.status === "doing" ? "doing" : "" }, el("span", { "aria-hidden": "true" }, `${mark} `), el("span", { class: "unseen" }, `${said}: `), item.text);
    }),
  );
  const { words: inShort, rows = [] } = status.costs ?? {};
  fill(
    at("costs"),
    el("p", {}, inShort || "Nothing yet."),
    rows.length
      ? el(
          "table",
          {},
          el("thead", {}, el("tr", {}, ["who", "tokens in", "out", "US$"].map((name) => el("th", { scope: "col" }, name)))),
          el("tbody", {}, rows.map((row) => el("tr", {}, el("th", { scope: "row" }, row.slice(0, -3).join(" · ")), row.slice(-3).map((figure) => el("td", {}, figure === null ? "–" : typeof figure === "number" ? figure.toLocaleString() : String(figure)))))),
        )
      : null,
  );
  const data = status.data;
  const isEmpty = data === undefined || data === null || (typeof data === "object" && !Object.keys(data).length);
  const parts = [];
  if (!isEmpty) parts.push(el("pre", {}, JSON.stringify(data, null, 2)));
  if (status.output !== undefined && status.output !== null) {
    parts.push(el("h4", {}, "Output"), el("pre", {}, typeof status.output === "string" ? status.output : JSON.stringify(status.output, null, 2)));
  }
  fill(at("data"), parts.length ? parts : el("p", { class: "muted" }, "It keeps no data."));
}

// The machine changes where the run does: only then is it asked for.
async function machine(seq) {
  const wanted = seq === null ? `${latest.state}\n${latest.status}` : `at ${seq}`;
  if (wanted === drawn) return;
  drawn = wanted;
  const of = run;
  try {
    const picture = await get(`/runs/${run}/graph?width=44${seq === null ? "" : `&at=${seq}`}`);
    if (of === run && drawn === wanted) drawMachine(at("machine"), picture, picture.text || `It is in ${latest.state}.`);
  } catch (error) {
    if (of === run && drawn === wanted) {
      drawn = "";
      fill(at("machine"), el("p", { class: "muted" }, error.words ?? String(error)));
    }
  }
}

/** The data of the run as it is now; it is not sent with each change. */
export async function refresh() {
  const of = run;
  try {
    const whole = await get(`/runs/${run}`);
    if (of === run && latest) show({ ...whole, seq: Math.max(whole.seq, latest.seq ?? 0) });
  } catch {
    // The stream says that we are cut off.
  }
}

// --- time travel ---------------------------------------------------------------------------------------

function words() {
  const seq = Number(slider.value);
  const said = until === null ? `now, after fact ${slider.max}` : `after fact ${seq} of ${slider.max}`;
  const last = until === null ? "" : conversation.wordsAt(seq);
  slider.setAttribute("aria-valuetext", last ? `${said}: ${last}` : said);
  fill(at("moment-words"), said);
  at("now").hidden = until === null;
  at("earlier").disabled = seq <= 1;
  at("later").disabled = until === null;
}

function go(seq) {
  const last = Number(slider.max);
  until = seq >= last ? null : Math.max(1, seq);
  slider.value = until ?? last;
  conversation.showUntil(until);
  document.body.classList.toggle("past", until !== null);
  words();
  clearTimeout(asking);
  if (until === null) {
    drawn = "";
    if (latest) {
      machine(null);
      fill(at("run-doing"), latest.doing || latest.status || "");
    }
    return void refresh();
  }
  asking = setTimeout(async () => {
    const [of, wanted] = [run, until];
    try {
      const past = await get(`/runs/${run}/at/${wanted}`);
      if (of !== run || until !== wanted) return;
      describe(past);
      fill(at("run-doing"), `Then: ${past.doing || past.state || "not begun"}`);
      machine(wanted);
    } catch (error) {
      if (of === run && until === wanted) fill(at("moment-words"), error.words ?? String(error));
    }
  }, 120);
}

/** Open or close the slider; closed, it is now. */
export function travel(isOpen) {
  at("travel").hidden = !isOpen;
  at("time").setAttribute("aria-expanded", String(isOpen));
  if (!isOpen && until !== null) go(Infinity);
  if (!isOpen) document.body.classList.remove("past");
}

/** The fact the slider stands at, null for now. */
export const moment = () => until;

slider.addEventListener("input", () => go(Number(slider.value)));
at("earlier").addEventListener("click", () => go((until ?? Number(slider.max)) - 1));
at("later").addEventListener("click", () => go((until ?? Number(slider.max)) + 1));
at("now").addEventListener("click", () => (go(Infinity), slider.focus()));
at("time").addEventListener("click", () => {
  travel(at("travel").hidden);
  if (!at("travel").hidden) slider.focus();
});
