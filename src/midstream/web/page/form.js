// A question as a form, made of its JSON Schema: text, numbers, yes or no, choices, several, parts of parts.
// What is no such thing is asked for as JSON. What does not fit is said by the server, beside its field.

import { el, fill } from "./text.js";

let made = 0;

const kindOf = (schema) => {
  const kinds = [schema.type ?? []].flat().filter((kind) => kind !== "null");
  return kinds.length === 1 ? kinds[0] : "";
};
const isPlain = (value) => ["string", "number", "boolean"].includes(typeof value);
const MOST_CHOICES = 200;

/**
 * The fields for a schema: `node` to show, `value()` what was filled in (undefined: left out), and
 * `refused(path, words)`, which shows words beside the field a path names.
 */
export function fieldsOf(schema, { label = "Answer", isNeeded = true, depth = 0, path = "" } = {}) {
  schema = schema && typeof schema === "object" ? schema : {};
  const properties = schema.properties;
  if (properties && typeof properties === "object" && depth < 4) return group(schema, label, isNeeded, depth, path);
  const id = `field${++made}`;
  const problem = el("p", { class: "problem", id: `${id}-problem`, role: "alert" });
  const about = el("p", { class: "muted", id: `${id}-about` }, schema.description ?? "", bounds(schema));
  const described = `${id}-about ${id}-problem`;
  const name = [label, isNeeded ? null : el("span", { class: "muted" }, " (may be left out)")];
  const held = control(schema, { id, described, isNeeded });
  const isGroup = held.node.tagName !== "INPUT" && held.node.tagName !== "TEXTAREA" && held.node.tagName !== "SELECT";
  const node = isGroup
    ? el("fieldset", { class: "field", "aria-describedby": described }, el("legend", {}, name), about, held.node, problem)
    : el("div", { class: "field" }, el("label", { for: id }, name), about, held.node, problem);
  return {
    node,
    value: () => held.value(),
    clear: () => fill(problem) && (node.classList.remove("wrong"), true),
    refused(at, words) {
      if (at !== path && path && !at.startsWith(`${path}.`)) return false;
      fill(problem, words);
      node.classList.add("wrong");
      (isGroup ? held.node.querySelector("input") : held.node)?.focus();
      return true;
    },
  };
}

function group(schema, label, isNeeded, depth, path) {
  const needed = Array.isArray(schema.required) ? schema.required : [];
  const parts = Object.entries(schema.properties).map(([name, part]) => [
    name,
    fieldsOf(part, { label: part?.title ?? name, isNeeded: needed.includes(name), depth: depth + 1, path: path ? `${path}.${name}` : name }),
  ]);
  const problem = el("p", { class: "problem", role: "alert" });
  const node = el(
    "fieldset",
    { class: depth ? "field parts" : "parts top" },
    depth ? el("legend", {}, label) : null,
    depth && schema.description ? el("p", { class: "muted" }, schema.description) : null,
    parts.map(([, part]) => part.node),
    problem,
  );
  return {
    node,
    value() {
      const found = parts.map(([name, part]) => [name, part.value()]).filter(([, value]) => value !== undefined);
      return found.length || isNeeded ? Object.fromEntries(found) : undefined;
    },
    clear: () => (fill(problem), parts.forEach(([, part]) => part.clear())),
    refused(at, words) {
      if (path && at !== path && !at.startsWith(`${path}.`)) return false;
      if (at !== path && parts.some(([, part]) => part.refused(at, words))) return true;
      fill(problem, words);
      return true;
    },
  };
}

function bounds(schema) {
  const { minimum, maximum, minLength, maxLength } = schema;
  const found = [];
  if (Number.isFinite(minimum) && Number.isFinite(maximum)) found.push(`${minimum} to ${maximum}`);
  else if (Number.isFinite(minimum)) found.push(`at least ${minimum}`);
  else if (Number.isFinite(maximum)) found.push(`at most ${maximum}`);
  if (minLength > 1) found.push(`at least ${minLength} characters`);
  if (Number.isFinite(maxLength)) found.push(`at most ${maxLength} characters`);
  return found.length ? `${schema.description ? " · " : ""}${found.join(" · ")}` : "";
}

function control(schema, { id, described, isNeeded }) {
  const kind = kindOf(schema);
  const items = schema.items;
  if (Array.isArray(schema.enum) && schema.enum.every(isPlain) && schema.enum.length <= MOST_CHOICES) {
    return choices(schema.enum.map((value) => [String(value), value]), schema.default, { id, isNeeded });
  }
  if (kind === "boolean") return choices([["yes", true], ["no", false]], schema.default, { id, isNeeded });
  if (kind === "array" && Array.isArray(items?.enum) && items.enum.every(isPlain) && items.enum.length <= MOST_CHOICES) return several(items.enum, schema.default, id);
  const common = { id, "aria-describedby": described, "aria-required": isNeeded ? "true" : null, autocomplete: "off" };
  if (kind === "number" || kind === "integer") {
    const node = el("input", { ...common, type: "text", inputmode: kind === "integer" ? "numeric" : "decimal" });
    node.value = schema.default ?? "";
    // What is no number goes to the server as it stands: it says so, beside this field.
    return { node, value: () => (node.value.trim() === "" ? undefined : asNumber(node.value)) };
  }
  const isText = kind === "string";
  const isShort = isText && schema.maxLength <= 80;
  const node = isShort ? el("input", { ...common, type: "text" }) : el("textarea", { ...common, rows: isText ? 2 : 3 });
  node.value = schema.default === undefined ? "" : isText ? schema.default : JSON.stringify(schema.default);
  if (isText) return { node, value: () => (node.value === "" && !isNeeded ? undefined : node.value) };
  if (kind === "array" && ["string", "number", "integer"].includes(kindOf(items ?? {}))) {
    node.placeholder = "one on each line";
    node.value = Array.isArray(schema.default) ? schema.default.join("\n") : "";
    const read = kindOf(items) === "string" ? (line) => line : asNumber;
    return { node, value: () => (node.value.trim() || isNeeded ? node.value.split("\n").filter((line) => line.trim()).map(read) : undefined) };
  }
  if (kind) node.placeholder = "JSON";
  return { node, value: () => (node.value.trim() ? asJson(node.value) : isNeeded ? node.value : undefined) };
}

const asNumber = (text) => (Number.isFinite(Number(text)) ? Number(text) : text);
function asJson(text) {
  try {
    return JSON.parse(text);
  } catch {
    return text;
  }
}

function choices(options, chosen, { id, isNeeded }) {
  const inputs = options.map(([, value], number) => {
    const input = el("input", { type: "radio", name: id, id: `${id}-${number}` });
    input.checked = value === chosen;
    return input;
  });
  const none = isNeeded ? null : el("button", { type: "button", class: "quiet", onclick: () => inputs.forEach((input) => (input.checked = false)) }, "none of them");
  return {
    node: el("div", { class: "choices" }, options.map(([label], number) => el("label", { for: `${id}-${number}` }, inputs[number], el("span", {}, label))), none),
    value: () => options[inputs.findIndex((input) => input.checked)]?.[1],
  };
}

function several(values, chosen, id) {
  const inputs = values.map((value, number) => {
    const input = el("input", { type: "checkbox", id: `${id}-${number}` });
    input.checked = Array.isArray(chosen) && chosen.includes(value);
    return input;
  });
  return {
    node: el("div", { class: "choices" }, values.map((value, number) => el("label", { for: `${id}-${number}` }, inputs[number], el("span", {}, String(value))))),
    value: () => values.filter((_, number) => inputs[number].checked),
  };
}
