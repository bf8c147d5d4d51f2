// The picture of the machine, as views/graph_layout lays it out: frames, words and wires on a grid of cells.

import { el, fill, visible } from "./text.js";

const CELL = 7.5;
const LINE = 18;
const EDGE = 8;

function svg(tag, attributes, text) {
  const made = document.createElementNS("http://www.w3.org/2000/svg", tag);
  for (const [name, value] of Object.entries(attributes)) made.setAttribute(name, value);
  if (text !== undefined) made.append(document.createTextNode(visible(text)));
  return made;
}

const middle = (x, y) => [EDGE + (x + 0.5) * CELL, EDGE + (y + 0.5) * LINE];

/** Draw the machine into an element; `words` say for who cannot see it where the run is. */
export function drawMachine(parent, picture, words) {
  if (!picture?.frames?.length) return void fill(parent, el("p", { class: "muted" }, words || "There is no picture of it."));
  const width = picture.width * CELL + 2 * EDGE;
  const height = picture.height * LINE + 2 * EDGE;
  const image = svg("svg", { viewBox: `0 0 ${width} ${height}`, width, height, role: "img" });
  image.append(svg("title", {}, words));
  const head = svg("marker", { id: "head", viewBox: "0 0 8 8", refX: 7, refY: 4, markerWidth: 8, markerHeight: 8, markerUnits: "userSpaceOnUse", orient: "auto" });
  head.append(svg("path", { class: "head", d: "M0 0L8 4L0 8z" }));
  image.append(head);
  for (const frame of picture.frames) {
    const [x, y] = middle(frame.x, frame.y);
    const look = frame.is_current ? "frame current" : frame.is_visited ? "frame visited" : "frame";
    image.append(svg("rect", { class: look, x, y, width: (frame.width - 1) * CELL, height: (frame.height - 1) * LINE, rx: 6 }));
  }
  for (const { points, is_dashed: isDashed } of picture.wires ?? []) {
    const found = points.map(([x, y]) => middle(x, y));
    const [[x0, y0], [x1, y1]] = found.slice(-2);
    // A cell's middle is short of the frame beside it.
    found[found.length - 1] = y1 === y0 ? [x1 + CELL * 0.8, y1] : [x1, y1 + LINE * 0.6];
    image.append(svg("polyline", { class: isDashed ? "wire dashed" : "wire", points: found.map((point) => point.join(",")).join(" "), "marker-end": "url(#head)" }));
  }
  const looks = ["title", "plain", "dim", "exit", "mark"];
  for (const { x, y, text, look = "plain" } of picture.words ?? []) {
    const shown = String(text).replaceAll("  ", "\u00a0\u00a0");
    image.append(svg("text", { class: looks.includes(look) ? look : "plain", x: EDGE + x * CELL, y: EDGE + (y + 0.72) * LINE }, shown));
  }
  fill(parent, image);
}
