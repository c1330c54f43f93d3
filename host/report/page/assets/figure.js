// Owns a figure of the sections of compare, experts, cka and routing: heading, choices, a grid or lines that arrow keys walk
// over, what colours and marks mean.
const { make, number, count, fileLabel } = require("tools");
const { chart } = require("chart");
const { isNumber, prepare } = require("cells");

const MOST_SIDE = 72;  // cells of a side of a grid

const diverging = [5, 4, 3, 2, 1].map((i) => `var(--low-${i})`).concat("var(--middle)", [1, 2, 3, 4, 5].map((i) => `var(--high-${i})`));
const sequential = [0, 1, 2, 3, 4, 5, 6, 7, 8].map((i) => `var(--step-${i})`);

/** Deviations that the farthest of `count` values of noise stays within as often as one does within two: each in a share of 0.0455 /
 *  count (normal quantile: Abramowitz and Stegun 26.2.23). */
exports.farthest = (count) => {
  if (count <= 1) return 2;
  const t = Math.sqrt(-2 * Math.log(0.02275 / count));
  return t - (2.515517 + t * (0.802853 + t * 0.010328)) / (1 + t * (1.432788 + t * (0.189269 + t * 0.001308)));
};
/** Classes around `centre`: the middle one holds what is within `limit` deviations, and a tenth of the largest distance at least. No
 *  class lies wholly below `least`. */
exports.around = (values, centre, deviation, limit = 2, least = -Infinity) => {
  const spread = isNumber(deviation) ? deviation : 0;
  const reach = values.reduce((most, value) => (isNumber(value) ? Math.max(most, Math.abs(value - centre)) : most), 2.5 * limit * spread) || 1;
  const inner = Math.max(limit * spread, reach / 10);
  const steps = [0, 0.2, 0.4, 0.6, 0.8].map((share) => inner + share * (reach - inner));
  const all = [...steps.map((step) => centre - step).reverse(), ...steps.map((step) => centre + step)];
  const bounds = all.filter((bound) => bound > least);
  return { bounds, colours: diverging.slice(all.length - bounds.length), middle: "the null" };
};
/** Classes with these ten bounds, the null between the fifth and the sixth. */
exports.beside = (bounds) => ({ bounds, colours: diverging, middle: "the null" });
/** Classes with these eight bounds. */
exports.steps = (bounds) => ({ bounds, colours: sequential });
/** Nine classes of equal width from the least to the largest value, or of equal ratios. */
exports.even = (values, isLog) => {
  const known = values.filter((value) => isNumber(value) && (!isLog || value > 0));
  if (known.length === 0) return { bounds: [0], colours: [sequential[4], sequential[4]] };
  const [low, high] = [Math.min(...known), Math.max(...known)].map((value) => (isLog ? Math.log(value) : value));
  const at = (i) => { const place = low + (i * (high - low)) / 9; return isLog ? Math.exp(place) : place; };
  const digits = Math.max(2, Math.ceil(Math.log10(Math.max(Math.abs(at(0)), Math.abs(at(9))) / Math.abs(at(1) - at(0) || Infinity)) + 1) || 2);
  const bounds = [...new Set([1, 2, 3, 4, 5, 6, 7, 8].map((i) => Number(at(i).toPrecision(Math.min(6, digits)))))];
  return { bounds, colours: Array.from({ length: bounds.length + 1 }, (unused, i) => sequential[Math.round((i * 8) / bounds.length)]) };
};

const swatches = {
  line: () => make("i", { class: "line", mark: "var(--file-0)" }),
  null: () => make("i", { class: "line dashed", mark: "var(--file-1)" }),
  outline: () => make("i", { class: "outlined" }),
  dot: () => make("i", { class: "dot" }),
  diamond: () => make("i", { class: "diamond" }),
  cross: () => make("b", { class: "cross" }, "\u00d7"),
  missing: () => make("i", { class: "hatched" }),
};
const short = (value) => (value !== 0 && Math.abs(value) < 1e-3 ? value.toExponential(0)
  : String(Number(value.toPrecision(Math.abs(value) < 0.1 ? 2 : 3))));
const scaleLegend = ({ bounds, colours, middle }) => [
  make("li", { class: "scale" }, colours.map((colour, i) => make("span", {}, make("i", { mark: colour }),
    make("b", {}, i < bounds.length ? short(bounds[i]) : "\u00a0")))),
  ...(middle ? [make("li", {}, make("i", { class: "single", mark: "var(--middle)" }), middle)] : [])];
const legend = (scale, entries) => make("ul", { class: "legend cells-legend" }, scale ? scaleLegend(scale) : [],
  entries.map(([kind, text]) => make("li", {}, swatches[kind](), text)));

/** Of a list in reading order: the next one in the direction of a key. `across(a, b)`: both are in one row. */
const walker = (marks, isGrid) => (from, key) => {
  if (!from) return marks[0] ?? null;
  const at = marks.indexOf(from), step = key === "ArrowLeft" || key === "ArrowUp" ? -1 : 1;
  const inRow = (mark) => (isGrid ? mark.y === from.y : mark.panel === from.panel);
  if (key === "Home" || key === "End") {
    const row = marks.filter(inRow);
    return key === "Home" ? row[0] : row[row.length - 1];
  }
  const isAcross = key === "ArrowLeft" || key === "ArrowRight";
  for (let i = at + step; i >= 0 && i < marks.length; i += step) {
    if (isAcross ? inRow(marks[i]) : !inRow(marks[i]) && marks[i].x === from.x) return marks[i];
    if (isAcross) return from;
  }
  return from;
};

/** `describe` gives [[name, text], ...], the first of which is the title. */
const tipOf = (describe) => (mark) => {
  const [[name, text], ...rows] = describe(mark);
  return { title: `${name} ${text}`, rows };
};

class Figure {
  constructor(body, heading, isWide) {
    this.choices = make("div", { class: "controls" });
    this.caption = make("figcaption", {});  // also on paper, where there are no choices
    this.place = make("div", {});
    this.key = make("div", {});
    this.notes = make("div", { class: "notes" });
    this.element = make("figure", { class: isWide ? "cells wide" : "cells" }, make("h3", {}, heading), this.choices, this.caption, this.key,
      this.place, this.notes);
    body.append(this.element);
  }
  controls(...selects) { this.choices.append(...selects.map(({ element }) => element)); }
  note(text) { this.notes.append(make("p", { class: "note" }, text)); }
  /** Waits for `read()`, then gives what it found to `show`, unless it was asked again meanwhile. */
  async latest(read, show) {
    const turn = this.turn = (this.turn ?? 0) + 1;
    this.element.setAttribute("aria-busy", "true");
    const found = await read();
    if (turn !== this.turn) return;
    show(found);
    this.element.removeAttribute("aria-busy");
  }
  empty(text) {
    this.key.replaceChildren();
    this.caption.textContent = "";
    this.place.replaceChildren(make("p", { class: "nothing" }, text));
  }

  /** cells: {x, y, value, state, marked} in reading order; xs and ys: names along the sides. */
  grid({ label, xs, ys, cells, xTitle, yTitle = "", labelWidth = 30, isSquare = false, scale, key, describe }) {
    if (cells.length === 0) return this.empty("Nothing to compare: there are no two of them.");
    this.caption.textContent = label;
    this.key.replaceChildren(legend(scale, key));
    const wanted = isSquare ? Math.min(620, 90 + 44 * xs.length) : 60 + labelWidth + 48 * xs.length;
    this.place.replaceChildren(chart("grid", {
      label: `${label}; arrow keys walk over the cells`, height: isSquare ? 160 : ys.length * 19 + 50,
      data: { cells, xs: xs.map((name, at) => ({ at, name })), ys: ys.map((name, at) => ({ at, name })), focus: [] },
      signals: { isSquare, xTitle, yTitle, labelWidth, bounds: scale.bounds, colours: scale.colours, columns: Math.max(1, xs.length),
        lines: Math.max(1, ys.length) },
      // The room of the labels is set aside here: a chart that fits itself may swing between two sets of labels for ever.
      width: (available) => Math.min(available, wanted) - labelWidth - (yTitle ? 18 : 0) - 22, tip: tipOf(describe), walk: walker(cells, true),
    }));
  }

  /** points: {panel: its name, x, value, low, high, null, nullLow, nullHigh}, panel by panel. */
  lines({ label, points, xTitle, isLog = false, key, describe }) {
    this.caption.textContent = label;
    this.key.replaceChildren(legend(null, key));
    const panels = [...new Set(points.map(({ panel }) => panel))], places = new Map(panels.map((name, place) => [name, place]));
    const known = points.map((point) => {
      const out = { ...point, place: places.get(point.panel) };
      for (const name of ["value", "low", "high", "null", "nullLow", "nullHigh"]) {
        out[name] = isNumber(point[name]) && (!isLog || point[name] > 0) ? point[name] : null;
      }
      return out;
    });
    this.place.replaceChildren(chart("lines", {
      label: `${label}; arrow keys walk over the values`, height: 150, data: { points: known, panels: panels.map((name) => ({ name })), focus: [] },
        signals: { xTitle, isLog }, tip: tipOf(describe), walk: walker(known, false),
    }));
  }
}

/**
 * Cells of ys x xs of value(i, j, limit) = {value, ...} or null for no cell. Where a side is longer than MOST_SIDE, a cell stands
 * for `block` neighbours and is the one farthest from `centre`, which noise keeps within `limit` deviations. {xs, ys: names of both
 * sides, cells, block, limit}.
 */
exports.gridCells = (xs, ys, value, centre = 0, isSquare = true) => {
  const stepX = Math.ceil(xs.length / MOST_SIDE), stepY = isSquare ? Math.ceil(ys.length / MOST_SIDE) : 1;
  const block = stepX * stepY, limit = exports.farthest(block);
  const thinned = (names, step) => names.filter((unused, i) => i % step === 0);
  const cells = [];
  for (let i = 0; i < ys.length; i += stepY) {
    for (let j = 0; j < xs.length; j += stepX) {
      let found = null;
      for (let a = i; a < Math.min(i + stepY, ys.length); ++a) {
        for (let b = j; b < Math.min(j + stepX, xs.length); ++b) {
          const cell = value(a, b, limit);
          if (cell && (!found || !isNumber(found.value) || Math.abs(cell.value - centre) > Math.abs(found.value - centre))) found = cell;
        }
      }
      if (found) cells.push({ ...found, value: isNumber(found.value) ? found.value : null, state: isNumber(found.value) ? found.state : "missing", 
        x: xs[j], y: ys[i], column: j / stepX, line: i / stepY });
    }
  }
  return { xs: thinned(xs, stepX), ys: thinned(ys, stepY), cells, block, limit };
};
exports.blockText = (block) => (block > 1
  ? `Every cell stands for ${block} neighbours and is the one farthest from the null; the limit of noise is that of the farthest of ${block}.`
    : "");
exports.tooLarge = (what, held) => `The page holds none of ${held} ${what}, which are too large for it; the results file holds them.`;
exports.withinText = (block, noise) => (block > 1 ? `no farther than ${noise} gives the farthest of ${block}`
  : `within two standard deviations of ${noise}`);

exports.table = (caption, headings, rows) => make("div", { class: "scroll cells wide", tabindex: "0", role: "region", "aria-label": caption },
  make("table", {}, make("caption", {}, caption), make("thead", {}, make("tr", {}, headings.map((text) => make("th", { scope: "col" }, text)))),
    make("tbody", {}, rows.map((row) => make("tr", {}, row.map((cell) =>
      (typeof cell === "string" ? make("td", {}, cell) : make("td", { class: "number" }, number(cell)))))))));

/** Names may have 64 KB; a table shows how one begins and ends. */
exports.shortName = (name) => (name.length > 160 ? `${name.slice(0, 110)}\u2026${name.slice(-40)} (${name.length} characters)` : name);

const REASONS = 100;
/** Rows that have no numbers, or not all of them, with the reason that the file gives. */
const reasons = (file) => {
  const status = file.column("status"), reason = file.column("reason"), name = file.column("tensor") ?? file.column("tensor_a");
  const rows = Array.from({ length: file.count }, (unused, row) => row).filter((row) => status[row] !== "measured" || reason[row] !== "");
  if (rows.length === 0) return null;
  return exports.table(`Rows with a reason: ${Math.min(rows.length, REASONS)} of ${count(rows.length)}`, ["tensor", "layer", "status", "why"],
    rows.slice(0, REASONS).map((row) => [exports.shortName(name[row]), file.at("layer", row), status[row], exports.shortName(reason[row])]));
};

/** A section's draw of a function that draws one file: drawFile({figure(heading, isWide), add(element)}, file). */
exports.drawEach = (kind, drawFile) => async (body, allFiles) => {
  const files = await prepare(allFiles, kind);
  for (const file of files) {
    if (files.length > 1) body.append(make("h3", { class: "file-heading" }, fileLabel(file, files)));
    const frame = make("div", { class: "figures" });
    body.append(frame);
    await drawFile({ figure: (heading, isWide = false) => new Figure(frame, heading, isWide), add: (element) => frame.append(element) }, file);
    frame.append(...[reasons(file)].filter(Boolean));
  }
};
