// An agent's words as they are usually meant: paragraphs, headings, lists, code. No more than that: what is
// not understood stands there as it was written, and all of it is text nodes.
//
// Words stream, so they are drawn again with each piece that comes. Only the blocks that have changed are
// (that is the last one, mostly): what was read and selected above stays where it is, and when the whole
// reply arrives nothing moves at all.

import { el, linked, put } from "./text.js";

const FENCE = /^ {0,3}(`{3,}|~{3,})\s*([^`\s]*)/;
const ITEM = /^(\s*)([-*+]|\d{1,9}[.)])\s+(.*)$/;
const HEADING = /^(#{1,6})\s+(.*?)\s*#*$/;
const MOST_BLOCKS = 5000;

/** The blocks of a text, in order: what kind each is and its lines as they were written. */
function blocksOf(text) {
  const blocks = [];
  let open = null;
  let fence = "";
  const begin = (kind, line) => blocks.push((open = { kind, lines: [line] }));
  for (const line of text.replaceAll("\r\n", "\n").split("\n")) {
    if (fence) {
      open.lines.push(line);
      const mark = line.match(FENCE)?.[1];
      if (mark?.startsWith(fence) && line.trim() === mark) fence = open = null;
    } else if (FENCE.test(line)) {
      begin("code", line);
      fence = line.match(FENCE)[1];
    } else if (!line.trim()) {
      if (open?.kind === "list") open.lines.push(line);
      else open = null;
    } else if (HEADING.test(line)) {
      begin("heading", line);
      open = null;
    } else if (ITEM.test(line)) {
      if (open?.kind === "list") open.lines.push(line);
      else begin("list", line);
    } else if (open?.kind === "list" && (/^\s/.test(line) || open.lines.at(-1).trim())) open.lines.push(line);
    else if (open?.kind === "words") open.lines.push(line);
    else begin("words", line);
  }
  if (blocks.length > MOST_BLOCKS) return [{ kind: "words", lines: text.split("\n") }];
  return blocks.map(({ kind, lines }) => ({ kind, text: lines.join("\n").trimEnd() }));
}

/** Inline code, bold and links; the rest as it stands. */
function inline(text) {
  const parts = [];
  for (const piece of text.split(/(`[^`\n]+`|\*\*[^*\n]+\*\*)/)) {
    if (piece.length > 2 && piece.startsWith("`") && piece.endsWith("`")) parts.push(el("code", {}, piece.slice(1, -1)));
    else if (piece.length > 4 && piece.startsWith("**") && piece.endsWith("**")) parts.push(el("strong", {}, ...linked(piece.slice(2, -2))));
    else parts.push(...linked(piece));
  }
  return parts;
}

function drawn({ kind, text }) {
  if (kind === "code") {
    const lines = text.split("\n");
    const mark = lines[0].match(FENCE)[1];
    if (lines.length > 1 && lines.at(-1).trim().startsWith(mark)) lines.pop();
    return el("pre", { tabindex: 0 }, el("code", {}, lines.slice(1).join("\n")));
  }
  if (kind === "heading") {
    const [, marks, words] = text.match(HEADING);
    // The page has the first three levels for itself.
    return el("p", { class: "heading", role: "heading", "aria-level": Math.min(6, marks.length + 3) }, ...inline(words));
  }
  if (kind === "list") return listOf(text);
  return el("p", {}, ...inline(text));
}

function listOf(text) {
  const items = [];
  for (const line of text.split("\n")) {
    const found = line.match(ITEM);
    if (found) items.push({ depth: Math.min(4, found[1].replaceAll("\t", "    ").length >> 1), mark: found[2], lines: [found[3]] });
    else if (line.trim()) items.at(-1)?.lines.push(line.trim());
  }
  // The marks are kept as they were written: a list that begins at 3 does so here, too.
  return el(
    "ul",
    { class: "marked" },
    ...items.map(({ depth, mark, lines }) =>
      el("li", { class: `depth${depth}` }, el("span", { class: "mark" }, /\d/.test(mark) ? mark : "•"), el("span", {}, ...inline(lines.join("\n")))),
    ),
  );
}

/** Draw text into an element, leaving alone what stands there already. */
export function draw(parent, text) {
  const blocks = blocksOf(text);
  const standing = parent.blocks ?? [];
  let same = 0;
  while (same < blocks.length && blocks[same].text === standing[same]?.text && blocks[same].kind === standing[same]?.kind) same++;
  while (parent.childNodes.length > same) parent.lastChild.remove();
  put(parent, ...blocks.slice(same).map(drawn));
  parent.blocks = blocks;
  return parent;
}
