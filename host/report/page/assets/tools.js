// Owns what sections share: elements whose text is only ever text, numbers as people read them, the tooltip, and the choices
// that several sections follow.

/** `text` with control characters, and those that turn the direction of others, as \uNNNN: texts of a run may hold anything. */
exports.printable = (text) => text.replace(/[\u0000-\u0008\u000b-\u001f\u007f-\u009f\u200e\u200f\u202a-\u202e\u2066-\u2069]/g,
  (letter) => `\\u${letter.charCodeAt(0).toString(16).padStart(4, "0")}`);
const { printable } = exports;

/** An element with attributes and children; a child that is no element is text. Names of a model are data: nothing here, or
 *  anywhere in the page, makes HTML of a string. */
exports.make = (tag, attributes = {}, ...children) => {
  const element = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) {
    if (value === undefined || value === null || value === false) continue;
    if (name.startsWith("on")) element.addEventListener(name.slice(2), value);
    else if (name === "mark") element.style.setProperty("--mark", value);
    else element.setAttribute(name, value === true ? "" : printable(String(value)));
  }
  element.append(...children.flat().filter((child) => child !== null && child !== undefined)
    .map((child) => (child instanceof Node ? child : printable(String(child)))));
  return element;
};
const { make } = exports;

/** Four significant digits; "NaN" for what is none. */
exports.number = (value, isWhole = false) => {
  if (value === null || value === undefined || Number.isNaN(value)) return "NaN";
  if (isWhole || value === 0 || !Number.isFinite(value)) return String(value);
  const size = Math.abs(value);
  if (size >= 1e6 || size < 1e-4) return value.toExponential(3);
  return size >= 1e4 ? value.toFixed(0) : value.toPrecision(4);
};
exports.count = (value) => value.toLocaleString("en-US").replaceAll(",", "\u202f");
exports.plural = (count, one, many = one + "s") => `${exports.count(count)} ${count === 1 ? one : many}`;

/** Quantile `q` of ascending values, as numpy's default: linear between order statistics. */
exports.quantile = (sorted, q) => {
  if (sorted.length === 0) return NaN;
  const at = q * (sorted.length - 1), below = Math.floor(at);
  return below + 1 < sorted.length ? sorted[below] + (at - below) * (sorted[below + 1] - sorted[below]) : sorted[below];
};

/** `text` with its middle left out where it is longer than `most`: names of a model may be of any length. */
exports.short = (text, most = 160) => {
  const letters = [...text];
  if (letters.length <= most) return text;
  const head = Math.ceil((most - 1) / 2);
  return letters.slice(0, head).join("") + "\u2026" + letters.slice(letters.length - (most - 1 - head)).join("");
};

exports.fileColour = (index) => `var(--file-${index % 6})`;
/** A caption that says which file, where there are several. */
exports.fileLabel = (file, files) =>
  files.length < 2 ? null : make("strong", {}, make("span", { class: "swatch", mark: exports.fileColour(file.index) }), file.label);

exports.nothing = (why) => make("p", { class: "nothing" }, why);

/** A labelled select; `options`: [{value, text, group?}]. */
exports.select = (label, options, chosen, onChange) => {
  const select = make("select", { onchange: () => onChange(select.value) });
  exports.setOptions(select, options, chosen);
  return { element: make("label", {}, label, select), select };
};
exports.setOptions = (select, options, chosen) => {
  const groups = new Map();
  const parts = [];
  for (const { value, text, group } of options) {
    const option = make("option", { value }, exports.short(String(text), 60));
    if (group === undefined) parts.push(option);
    else if (groups.has(group)) groups.get(group).append(option);
    else {
      groups.set(group, make("optgroup", { label: group }, option));
      parts.push(groups.get(group));
    }
  }
  select.replaceChildren(...parts);
  select.value = String(chosen);
};

const tooltip = document.getElementById("tooltip");
/** Shows `value` = {title, rows: [[name, text], ...]} beside the point (x, y) of the window; null hides it. */
exports.tooltip = (x, y, value) => {
  tooltip.hidden = value === null || value === undefined;
  if (tooltip.hidden) return;
  const rows = (value.rows ?? []).flatMap(([name, text]) =>
    [make("dt", {}, exports.short(String(name))), make("dd", {}, exports.short(String(text)))]);
  tooltip.replaceChildren(make("strong", {}, make("bdi", {}, exports.short(value.title))), make("dl", {}, rows));
  const box = tooltip.getBoundingClientRect();
  const left = x + 14 + box.width > innerWidth ? x - 14 - box.width : x + 14;
  tooltip.style.left = `${Math.max(4, Math.min(left, innerWidth - box.width - 4))}px`;
  tooltip.style.top = `${Math.max(4, y + 14 + box.height > innerHeight ? y - 14 - box.height : y + 14)}px`;
};
exports.announce = (text) => { document.getElementById("announcer").textContent = text; };
exports.tooltipText = (value) => [value.title, ...(value.rows ?? []).map(([name, text]) => `${name} ${text}`)].join(", ");

/** Choices that more than one section follows: `choices.set({metric})` tells everyone who watches. */
const watchers = [];
exports.choices = {
  metric: "var_at_64", shown: "ratio", matrix: null,
  set(changes, by = null) {
    Object.assign(this, changes);
    for (const [watcher, owner] of watchers) if (owner !== by || by === null) watcher(changes);
  },
  /** The spectrum of a row of a file, brought onto the screen. */
  show(file, row) {
    this.set({ matrix: { file, row } });
    document.getElementById("spectrum").scrollIntoView();
  },
  watch(watcher, owner = {}) { watchers.push([watcher, owner]); },
};
