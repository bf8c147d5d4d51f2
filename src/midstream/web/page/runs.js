// The list of runs, as it changes, and the form that begins one.

import { get, listen, newId, post } from "./server.js";
import { at, clock, el, fill } from "./text.js";

const runs = new Map();
let current = "";

// A sign and a word: none of it is said by colour alone.
const STANDINGS = {
  running: ["●", "at work"], asking: ["?", "asks you"], waiting: ["›", "waits for words"], suspended: ["!", "suspended"],
  finished: ["✓", "finished"], failed: ["✗", "failed"], stopped: ["■", "stopped"],
};

function entry(info) {
  const [mark, words] = STANDINGS[info.status] ?? ["·", info.status];
  const usd = Number(info.usd);
  return el(
    "li",
    {},
    el(
      "a",
      { href: `#/run/${info.id}`, class: `run ${info.status in STANDINGS ? info.status : ""}`, "aria-current": info.id === current ? "page" : null },
      el("span", { class: "title" }, info.title || info.workflow || info.id),
      el("span", { class: "muted" }, el("span", { "aria-hidden": "true" }, `${mark} `), el("span", {}, words, info.state && info.kind !== "chat" ? ` · ${info.state}` : "", usd < 0.001 ? "" : ` · $${usd.toFixed(usd < 1 ? 3 : 2)}`), clock(info.updated_at, { isBrief: true })),
    ),
  );
}

let isDue = false;
function redraw() {
  if (isDue) return;
  isDue = true;
  setTimeout(() => {
    isDue = false;
    const list = at("run-list");
    const had = list.contains(document.activeElement) ? document.activeElement.getAttribute("href") : null;
    const newest = [...runs.values()].sort((one, other) => other.updated_at - one.updated_at);
    fill(list, newest.map(entry));
    if (had) [...list.querySelectorAll("a")].find((link) => link.getAttribute("href") === had)?.focus();
    at("no-runs").hidden = runs.size > 0;
    const asking = newest.filter(({ status }) => status === "asking").length;
    document.title = `${asking ? `(${asking}) ` : ""}${runs.get(current)?.title || "midstream"}`.slice(0, 80);
  }, 100);
}

/** Say which run is on the screen. */
export function choose(id) {
  current = id;
  redraw();
}

async function more(after = "") {
  const size = 50;
  const found = (await get(`/runs?limit=${size}${after ? `&after=${encodeURIComponent(after)}` : ""}`)).runs;
  for (const info of found) runs.set(info.id, info);
  at("older").hidden = found.length < size;
  at("older").dataset.after = found.at(-1)?.id ?? "";
  redraw();
}

/** Keep the list up to date for as long as the page is there. */
export function watch() {
  const again = () => more().catch(() => {});
  again();
  listen("/runs/events", { run: (info) => (runs.set(info.id, info), redraw()) }, { opened: again });
  // A page in the background still says in its title that a run asks something.
  setInterval(() => document.hidden && again(), 20000);
  at("older").addEventListener("click", () => more(at("older").dataset.after).catch(() => {}));
}

// --- beginning one ---------------------------------------------------------------------------------------

let id = newId();  // tried again, it is the same run

/** Show what can be begun. */
export async function offer() {
  at("start-input").value = localStorage.getItem("midstream:start") ?? "";
  const held = at("start-what").querySelector("input:checked")?.value;
  try {
    const { workflows = {}, roles = [], start } = await get("/workflows");
    const all = [...Object.entries(workflows).map(([name, about]) => [name, name, about]), ...roles.map((role) => [`role:${role}`, `Chat with ${role}`, ""])];
    // First what a console here would begin with, so that the choice that is made stands on the screen.
    const isStart = ([value]) => value === start || `workflow:${value}` === start;
    all.sort((one, other) => isStart(other) - isStart(one));
    fill(
      at("start-what"),
      el("legend", {}, "With whom, or with what"),
      all.map(([value, label, about], number) => {
        const input = el("input", { type: "radio", name: "what", id: `what-${number}` });
        input.value = value;
        input.checked = held ? held === value : number === 0;
        return el("label", { for: input.id, class: "what" }, input, el("span", {}, el("b", {}, label), about ? el("span", { class: "muted" }, about) : null));
      }),
    );
  } catch (error) {
    fill(at("start-problem"), error.words ?? String(error));
  }
}

at("start-input").addEventListener("input", ({ target }) => localStorage.setItem("midstream:start", target.value));
at("start-input").addEventListener("keydown", (event) => {
  if (event.key === "Enter" && (event.ctrlKey || event.metaKey)) at("start-form").requestSubmit();
});
at("start-form").addEventListener("change", () => (id = newId()));
at("start-form").addEventListener("submit", async (event) => {
  event.preventDefault();
  fill(at("start-problem"));
  const workflow = at("start-what").querySelector("input:checked")?.value;
  if (!workflow) return void fill(at("start-problem"), "Choose what to begin.");
  try {
    const begun = await post("/runs", { workflow, input: at("start-input").value, id });
    id = newId();
    at("start-input").value = "";
    localStorage.removeItem("midstream:start");
    location.hash = `#/run/${begun.id}`;
  } catch (error) {
    fill(at("start-problem"), error.words ?? String(error));
  }
});
