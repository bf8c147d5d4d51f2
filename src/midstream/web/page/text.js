// What others wrote (a model, a tool, a file's name, a page) becomes text nodes, here and nowhere else.
//
// Nothing in this folder makes markup of a text (a test looks). Besides markup there are characters nobody sees that
// reorder or hide words: `visible` writes them out just as safety/sanitize.py does for the terminal, and the
// tests hold the two against each other.

const COMBINING = "\\u0300-\\u036f\\u0483-\\u0489\\u1ab0-\\u1aff\\u1dc0-\\u1dff\\u20d0-\\u20ff\\ufe20-\\ufe2f";
const JOINED = "\\u0600-\\u08ff\\u0900-\\u0dff\\u0e00-\\u0fff\\u1000-\\u109f\\u1780-\\u17ff";
const EMOJI = "\\u00a9\\u00ae\\u203c-\\u3299\\u{1f000}-\\u{1faff}";
const NEVER =
  "\\x00-\\x08\\x0b-\\x1f\\x7f-\\x9f\\xad\\u034f\\u061c\\u115f\\u1160\\u17b4\\u17b5\\u180b-\\u180f\\u200b\\u200e" +
  "\\u200f\\u2028-\\u202e\\u2060-\\u206f\\u3164\\ufeff\\uffa0\\ufff0-\\ufffb\\ud800-\\udfff" +
  "\\u{1d173}-\\u{1d17a}\\u{e0000}-\\u{e00ff}\\u{e01f0}-\\u{e0fff}";
const SOMETIMES = "\\u200c\\u200d\\ufe00-\\ufe0f\\u{e0100}-\\u{e01ef}";

const SUSPECT = new RegExp(`[${NEVER}${SOMETIMES}${COMBINING}]`, "u");
const FOUND = new RegExp(
  `(?<joined>(?<=[${JOINED}])[\\u200c\\u200d](?=[${JOINED}]))` +
    `|(?<emoji>(?<=[${EMOJI}\\ufe0f])\\u200d(?=[${EMOJI}]))` +
    `|(?<variant>(?<=[${EMOJI}0-9#*])[\\ufe0e\\ufe0f])` +
    "|(?<ideograph>(?<=[\\u3400-\\u4dbf\\u4e00-\\u9fff\\u{20000}-\\u{3ffff}])[\\u{e0100}-\\u{e01ef}])" +
    `|(?<marks>(?:(?<![^\\n])|(?<=[ \\t]))[${COMBINING}]+)` +
    `|(?<some>[${COMBINING}]{8})(?<more>[${COMBINING}]+)` +
    `|(?<bad>[${NEVER}${SOMETIMES}])`,
  "gu",
);

const escaped = (character) => {
  const code = character.codePointAt(0);
  if (code < 0x20) return String.fromCharCode(0x2400 + code);
  if (code === 0x7f) return "␡";
  if (code >= 0xd800 && code <= 0xdfff) return "\ufffd";
  const hex = code.toString(16);
  if (code <= 0xff) return `\\x${hex.padStart(2, "0")}`;
  return code <= 0xffff ? `\\u${hex.padStart(4, "0")}` : `\\U${hex.padStart(8, "0")}`;
};

/** The text with everything that would steer a screen, or that nobody would see, written out. */
export function visible(text) {
  text = String(text ?? "");
  if (!SUSPECT.test(text)) return text;
  return text.replaceAll("\r\n", "\n").replace(FOUND, (found, ...rest) => {
    const { joined, emoji, variant, ideograph, some, more } = rest.at(-1);
    if (joined || emoji || variant || ideograph) return found;
    if (some) return some + [...more].map(escaped).join("");
    return [...found].map(escaped).join("");
  });
}

/** A new element. Strings among the children are foreign: they become text nodes, made visible. */
export function el(tag, attributes = {}, ...children) {
  const made = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) {
    if (value === null || value === undefined || value === false) continue;
    if (name.startsWith("on")) made.addEventListener(name.slice(2), value);
    else made.setAttribute(name, value === true ? "" : visible(value));
  }
  return put(made, ...children);
}

/** Add children to an element, and return it. */
export function put(parent, ...children) {
  for (const child of children.flat()) {
    if (child === null || child === undefined || child === "") continue;
    parent.append(child instanceof Node ? child : document.createTextNode(visible(child)));
  }
  return parent;
}

/** Put other children in an element's place, and return it. */
export function fill(parent, ...children) {
  parent.replaceChildren();
  return put(parent, ...children);
}

/** When something was, in seconds since 1970: the time of today, else the day, and the time unless `isBrief`. */
export function clock(seconds, { isBrief = false } = {}) {
  const date = new Date(seconds * 1000);
  const isToday = date.toDateString() === new Date().toDateString();
  const day = isToday ? {} : { day: "numeric", month: "short" };
  const time = isBrief && !isToday ? {} : { hour: "numeric", minute: "2-digit" };
  return el("time", { datetime: date.toISOString() }, date.toLocaleString([], { ...day, ...time }));
}

/** The element of the page with an id. */
export const at = (id) => document.getElementById(id);

// Only what names a web page whole may be clicked, and it is shown whole: no text of its own hides where it
// leads. What goes on with letters outside ASCII, or with something written out, is none: it may look like another.
const ADDRESS = /https?:\/\/[!#-;=?-Z_a-z~]+/g;

/** Text, its addresses as links. */
export function linked(text) {
  const parts = [];
  let from = 0;
  for (const found of text.matchAll(ADDRESS)) {
    const address = found[0].replace(/(?<![.,;:!?)'*_])[.,;:!?)'*_]+$/, "");
    const next = text[found.index + found[0].length] ?? " ";
    if (next > "\x7e" || next === "\\" || !URL.canParse(address)) continue;
    const { username, password } = new URL(address);
    if (username || password) continue;
    parts.push(text.slice(from, found.index));
    parts.push(el("a", { href: address, target: "_blank", rel: "noopener noreferrer" }, address));
    from = found.index + address.length;
  }
  parts.push(text.slice(from));
  return parts;
}
