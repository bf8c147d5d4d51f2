// The page: which run is on the screen, its stream, and the keys. Each other module is one thought; begin
// reading with conversation.js (what is shown) and line.js (what is said).

import * as cards from "./cards.js";
import * as conversation from "./conversation.js";
import * as details from "./details.js";
import * as line from "./line.js";
import * as runs from "./runs.js";
import { listen, post } from "./server.js";
import { at, el, fill } from "./text.js";

let run = "";
let standing = {};
let leave = () => {};

// --- one run ---------------------------------------------------------------------------------------------

function open(id) {
  if (id === run) return;
  leave();
  run = id;
  standing = {};
  conversation.begin();
  cards.begin(id, () => {});
  details.begin(id);
  line.begin(id);
  fill(at("run-title"), "");
  fill(at("run-doing"), "");
  let isAgain = false;
  leave = listen(
    `/runs/${id}/events`,
    {
      status: stands,
      item: (it, event) => conversation.item({ seq: Number(event.lastEventId) || 0, ...it }),
      delta: conversation.delta,
      end({ error }) {
        if (error) return void fill(at("will"), error);
        leave();  // there is no more to come: asked again it would end again
        details.refresh();
      },
    },
    {
      since: conversation.seen,
      opened() {
        if (isAgain) conversation.reconnected();
        isAgain = true;
      },
    },
  );
  details.refresh();
}

/** The run stands in another way. */
function stands(status) {
  const wasIn = standing.state;
  standing = { ...standing, ...status };
  conversation.caughtUpAt(status.seq ?? 0);
  fill(at("run-title"), standing.title || standing.name || standing.workflow || run);
  if (!details.isPast()) fill(at("run-doing"), standing.doing || standing.status || "");
  cards.show(standing.questions ?? []);
  conversation.undelivered(standing.undelivered ?? [], (id) => act("withdraw", { input_id: id }));
  details.show(standing);
  if (status.data === undefined && standing.state !== wasIn) details.refresh();
  line.isBusy(Boolean(standing.is_busy));
  line.askSoon();
  const isOver = ["finished", "failed", "stopped"].includes(standing.status);
  at("halt").hidden = !standing.is_busy;
  at("stop").hidden = isOver;
  if (document.activeElement !== at("rename")) at("rename").value = standing.name ?? "";
  fill(at("about"), [standing.workflow, standing.model, standing.mode && `mode ${standing.mode}`, `id ${run}`].filter(Boolean).join(" · "));
}

async function act(what, body = {}) {
  try {
    return await post(`/runs/${run}/${what}`, body);
  } catch (error) {
    fill(at("will"), error.words ?? String(error));
    return null;
  }
}

/** Ask for a yes, and do it then. */
function ifSure(title, words, yes, doIt) {
  const dialog = at("sure");
  fill(at("sure-title"), title);
  fill(at("sure-words"), words);
  fill(at("sure-yes"), yes);
  dialog.returnValue = "no";
  dialog.onclose = () => dialog.returnValue === "yes" && doIt();
  dialog.showModal();
}

at("halt").addEventListener("click", () => act("halt"));
at("stop").addEventListener("click", () =>
  ifSure("Stop the run?", "It ends, and what it was doing is cut off. What was said and done is kept; a fork of it goes on from before.", "Stop it", () => act("stop", { reason: "stopped from the page" })),
);
at("fork").addEventListener("click", () => {
  const seq = details.moment();
  ifSure("Fork the run?", `A copy goes on as it was ${seq === null ? "now" : `after fact ${seq}`}. What tools did to files after that stays done.`, "Fork", async () => {
    const forked = await act("fork", { at: seq });
    if (forked) location.hash = `#/run/${forked.id}`;
  });
});
at("rename-form").addEventListener("submit", (event) => {
  event.preventDefault();
  act("rename", { name: at("rename").value });
});

// --- which part is shown ------------------------------------------------------------------------------------

const beside = matchMedia("(min-width: 1100px)");  // else details lie over the conversation

function showDetails(isOpen, isAsked = true) {
  at("details").hidden = !isOpen;
  document.body.classList.toggle("with-details", isOpen);
  at("details-open").setAttribute("aria-expanded", String(isOpen));
  if (isOpen) details.refresh();
  if (isAsked) at(isOpen ? "details" : "details-open").focus();
}
at("details-open").addEventListener("click", () => showDetails(at("details").hidden));
at("details-close").addEventListener("click", () => showDetails(false));
beside.addEventListener("change", () => beside.matches || showDetails(false, false));

function route() {
  const id = location.hash.match(/^#\/run\/([\w-]+)$/)?.[1] ?? "";
  const isNew = location.hash === "#/new";
  document.body.className = id ? "on-run" : isNew ? "on-start" : "on-list";
  at("start").hidden = !isNew;
  at("run").hidden = !id;
  at("nothing").hidden = Boolean(id) || isNew;
  at("main").setAttribute("aria-label", id ? "The run" : isNew ? "Begin a run" : "Nothing chosen");
  runs.choose(id);
  if (id) open(id);
  else {
    leave();
    leave = () => {};
    run = "";
  }
  showDetails(Boolean(id) && beside.matches, false);
  // Where fingers type, a keyboard on the screen would come up by itself.
  const types = !matchMedia("(pointer: coarse)").matches;
  if (isNew) runs.offer().then(() => types && at("start-input").focus());
  else if (id && types) at("line").focus();
}
addEventListener("hashchange", route);
at("begin").addEventListener("click", () => (location.hash = "#/new"));

// --- keys -------------------------------------------------------------------------------------------------------

const KEYS = [
  ["Enter", "send the line; what it will do now stands below it"],
  ["Shift-Enter, Alt-Enter", "a new line"],
  ["Esc", "halt what is being done; everything shown is kept"],
  ["?", "these keys, outside of a text or on an empty line"],
  ["l", "to the line"],
  ["q", "to the first open question"],
  ["e", "to the end of the conversation"],
  ["t", "time: a slider over all that happened"],
  ["d", "details: machine, costs, data"],
  ["r", "to the list of runs"],
  ["n", "begin a run"],
];
fill(at("key-list"), KEYS.map(([key, what]) => [el("dt", {}, el("kbd", {}, key)), el("dd", {}, what)]).flat());

const isText = (node) => node.matches?.("textarea, input:not([type=radio], [type=checkbox], [type=range]), select");
const showKeys = () => at("keys").showModal();
at("help").addEventListener("click", showKeys);

addEventListener("keydown", (event) => {
  if (document.querySelector("dialog[open]") || event.ctrlKey || event.metaKey || event.altKey || event.isComposing) return;
  if (event.key === "Escape" && run) {
    event.preventDefault();
    if (document.body.classList.contains("with-details") && !beside.matches) showDetails(false);
    else if (standing.is_busy && !event.repeat) act("halt");
    return;
  }
  const inText = isText(event.target);
  if (inText && !(event.key === "?" && event.target === at("line") && !event.target.value)) return;
  const does = {
    "?": showKeys,
    n: () => (location.hash = "#/new"),
    r: () => (at("run-list").querySelector("a[aria-current], a") ?? at("begin")).focus(),
    ...(run && {
      l: () => at("line").focus(),
      q: cards.focusFirst,
      e: conversation.readAtEnd,
      t: () => at("time").click(),
      d: () => showDetails(at("details").hidden),
    }),
  }[event.key];
  if (!does) return;
  event.preventDefault();
  does();
});

runs.watch();
route();
