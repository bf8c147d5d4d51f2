// An agent's words as they are usually meant: paragraphs, headings, lists, tables, quotes, code. No more than
// that: what is not understood stands there as it was written, and all of it is text nodes.
//
// Words stream, so they are drawn again with each piece that comes. Only the blocks that have changed are
// (that is the last one, mostly): what was read and selected above stays where it is, and when the whole
// reply arrives nothing moves at all.

import { el, linked, put } from "./text.js";

const FENCE = /^(\s*)(`{3,}(?=[^`]*$)|~{3,})/;
const ITEM = /^(\s*)([-*+]|\d{1,9}[.)])\s+(.*)$/;
const HEADING = /^(#{1,6})\s+(?=\S)(.*)$/;
const RULE = /^ {0,3}([-*_])(?:\s*\1){2,}\s*$/;
const QUOTE = /^ {0,3}> ?/;
const MOST_BLOCKS = 5000;
const DEEPEST = 5;

/** The blocks of a text, in order: what kind each is and its lines as they were written. */
function blocksOf(text) {
  const blocks = [];
  let open = null;
  let fence = "";
  const begin = (kind, ...lines) => blocks.push((open = { kind, lines }));
  for (const line of text.replaceAll("\r\n", "\n").split("\n")) {
    if (fence) {
      open.lines.push(line);
      if (closes(line, fence)) fence = open = null;
    } else if (FENCE.test(line)) {
      begin("code", line);
      fence = line.match(FENCE)[2];
    } else if (!line.trim()) {
      if (open?.kind === "list") open.lines.push(line);
      else open = null;
    } else if (HEADING.test(line)) {
      begin("heading", line);
      open = null;
    } else if (RULE.test(line)) {
      begin("rule", line);
      open = null;
    } else if (QUOTE.test(line)) {
      if (open?.kind === "quote") open.lines.push(line);
      else begin("quote", line);
    } else if (ITEM.test(line)) {
      if (open?.kind === "list") open.lines.push(line);
      else begin("list", line);
    } else if (open?.kind === "list" && (/^\s/.test(line) || open.lines.at(-1).trim())) open.lines.push(line);
    else if (open?.kind === "words" && isUnderHead(line, open.lines.at(-1))) {
      const names = open.lines.pop();
      if (!open.lines.length) blocks.pop();
      begin("table", names, line);
    } else if (open?.kind === "words" || (open?.kind === "table" && line.includes("|"))) open.lines.push(line);
    else begin("words", line);
  }
  if (blocks.length > MOST_BLOCKS) return [{ kind: "words", text }];
  return blocks.map(({ kind, lines }) => ({ kind, text: lines.join("\n").trimEnd() }));
}

const closes = (line, fence) => line.trim().startsWith(fence) && !line.trim().replaceAll(fence[0], "");
const cellsOf = (row) => row.trim().replace(/^\||(?<!\\)\|$/g, "").split(/(?<!\\)\|/).map((cell) => cell.trim().replaceAll("\\|", "|"));
const isUnderHead = (line, names) => line.includes("|") && cellsOf(line).every((cell) => /^:?-+:?$/.test(cell)) && cellsOf(line).length === cellsOf(names).length;

// Stars and lines within a word are part of it: `2*3*4`, `__init__`.
const INLINE = /(`[^`\n]+`)|\*\*(?=\S)([^*\n]+|[^*\n]*\*[^*\n]+\*[^*\n]*)\*\*|~~([^~\n]+)~~|(?<![\w*])\*(?=[^\s*])([^*\n]*[^\s*])\*(?![\w*])|(?<![\w_])_(?=[^\s_])([^_\n]*[^\s_])_(?![\w_])/g;

/** Inline code, bold, emphasis, what is struck out and links; the rest as it stands. */
function inline(text, depth = 0) {
  if (depth > DEEPEST) return linked(text);
  const parts = [];
  let from = 0;
  for (const found of text.matchAll(INLINE)) {
    const [all, code, bold, struck, starred, lined] = found;
    parts.push(...linked(text.slice(from, found.index)));
    if (code) parts.push(el("code", {}, code.slice(1, -1)));
    else if (bold) parts.push(el("strong", {}, ...inline(bold, depth + 1)));
    else if (struck) parts.push(el("s", {}, ...inline(struck, depth + 1)));
    else parts.push(el("em", {}, ...inline(starred ?? lined, depth + 1)));
    from = found.index + all.length;
  }
  return [...parts, ...linked(text.slice(from))];
}

const DRAWN = {
  code(text) {
    const lines = text.split("\n");
    const [, indent, mark] = lines[0].match(FENCE);
    if (lines.length > 1 && closes(lines.at(-1), mark)) lines.pop();
    const code = lines.slice(1).map((line) => (line.startsWith(indent) ? line.slice(indent.length) : line));
    return el("pre", { tabindex: 0 }, el("code", {}, code.join("\n")));
  },
  heading(text) {
    const [, marks, words] = text.match(HEADING);
    // The page has the first three levels for itself.
    return el("p", { class: "heading", role: "heading", "aria-level": Math.min(6, marks.length + 3) }, ...inline(words.replace(/(?<=\s)#+$/, "").trimEnd()));
  },
  rule: () => el("hr"),
  quote(text, depth) {
    const inside = text.split("\n").map((line) => line.replace(QUOTE, "")).join("\n");
    return el("blockquote", {}, ...(depth < DEEPEST ? blocksOf(inside).map((block) => drawn(block, depth + 1)) : [inside]));
  },
  table(text) {
    const [names, under, ...rows] = text.split("\n").map(cellsOf);
    const sides = under.map((mark) => (mark.endsWith(":") ? (mark.startsWith(":") ? "middle" : "right") : null));
    const row = (cells, tag) => el("tr", {}, ...cells.map((cell, column) => el(tag, { class: sides[column] }, ...inline(cell))));
    return el("div", { class: "table", tabindex: 0 }, el("table", {}, el("thead", {}, row(names, "th")), el("tbody", {}, ...rows.map((cells) => row(cells, "td")))));
  },
  list(text) {
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
      ...items.map(({ depth, mark, lines }) => {
        const [, box, words] = lines.join("\n").match(/^(\[[ xX]\])?([^]*)$/);
        const shown = box ? (box === "[ ]" ? "☐" : "☑") : /\d/.test(mark) ? mark : "•";
        return el("li", { class: `depth${depth}` }, el("span", { class: "mark" }, shown), el("span", {}, ...inline(words.trimStart())));
      }),
    );
  },
  words: (text) => el("p", {}, ...inline(text)),
};

const drawn = ({ kind, text }, depth = 0) => DRAWN[kind](text, depth);

/** Draw text into an element, leaving alone what stands there already. */
export function draw(parent, text) {
  const blocks = blocksOf(text);
  const standing = parent.blocks ?? [];
  let same = 0;
  while (same < blocks.length && blocks[same].text === standing[same]?.text && blocks[same].kind === standing[same]?.kind) same++;
  while (parent.childNodes.length > same) parent.lastChild.remove();
  put(parent, ...blocks.slice(same).map((block) => drawn(block)));
  parent.blocks = blocks;
  return parent;
}
