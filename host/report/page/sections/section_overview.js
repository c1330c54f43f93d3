// Owns #overview: a heat map of every (layer, block, role), the ratio of a metric to its null or its value, one map for each
// file with the same colours.
const { make, select, number, quantile, fileLabel, nothing, choices, count, short } = require("tools");
const { chart } = require("chart");
const { prepare, depth, roles, metricOptions, whyText } = require("measure");

exports.id = "overview";
exports.kind = "measure";
exports.title = "Overview";
exports.lead = "Every layer and kind of matrix: the median of a metric over the matrices of a cell, beside what independent " +
  "noise of the same shape gives. 1 is noise; routed experts of a layer share a cell.";

/** Bounds between classes of a ratio, symmetrical around 1; the finest set that holds nearly all of `ratios`. */
const sets = [[1.01, 1.02, 1.03, 1.05, 1.08], [1.02, 1.05, 1.1, 1.15, 1.2], [1.03, 1.1, 1.2, 1.35, 1.6], [1.05, 1.2, 1.5, 2, 2.5],
  [1.1, 1.5, 2.5, 5, 10], [1.2, 2, 4, 10, 25], [1.3, 3, 10, 30, 100]];
const ratioBounds = (ratios) => {
  const sizes = Float64Array.from(ratios, (ratio) => Math.exp(Math.abs(Math.log(ratio)))).sort();
  const reach = quantile(sizes, 0.95);
  const set = sets.find((one) => reach <= one[4]) ?? sets[sets.length - 1];
  return [...set.map((bound) => 1 / bound).reverse(), ...set];
};
const ratioColours = [5, 4, 3, 2, 1].map((i) => `var(--low-${i})`)
  .concat("var(--middle)", [1, 2, 3, 4, 5].map((i) => `var(--high-${i})`));

/** Eight bounds by equal shares of the distinct values. */
const valueBounds = (values) => {
  const sorted = Float64Array.from(values).sort();
  const bounds = [1, 2, 3, 4, 5, 6, 7, 8].map((i) => Number(quantile(sorted, i / 9).toPrecision(3)));
  return [...new Set(bounds)].sort((a, b) => a - b);
};
const valueColours = (bounds) =>
  Array.from({ length: bounds.length + 1 }, (unused, i) => `var(--step-${Math.round(i * 8 / Math.max(1, bounds.length))})`);

const hatch = { failed: "url(#hatch-failed)", skipped: "url(#hatch-skipped)", forced: "url(#hatch-undefined)", noratio: "url(#hatch-undefined)",
  undefined: "url(#hatch-undefined)" };

const swatch = (pattern) => {
  const svg = document.createElementNS("http://www.w3.org/2000/svg", "svg");
  const rect = document.createElementNS("http://www.w3.org/2000/svg", "rect");
  rect.setAttribute("width", "100%");
  rect.setAttribute("height", "100%");
  rect.setAttribute("fill", pattern);
  svg.append(rect);
  return svg;
};

const legend = (bounds, colours, isRatio, cells) => {
  const text = (i) => (i === 0 ? `< ${number(bounds[0])}` : i === bounds.length ? `\u2265 ${number(bounds[i - 1])}` : "");
  const bound = (value) => (isRatio ? value.toFixed(value < 10 ? 2 : 0)
    : Math.abs(value) >= 1e-3 && Math.abs(value) < 1e5 || value === 0 ? String(Number(value.toPrecision(2))) : value.toExponential(1));
  const steps = colours.map((colour, i) => make("span", {}, make("i", { mark: colour, title: text(i) }),
    make("b", {}, i < bounds.length ? bound(bounds[i]) : "\u00a0")));
  const kinds = new Set(cells.filter((cell) => cell.why).map((cell) => cell.why));
  const items = [make("li", { class: "scale" }, steps)];
  if (isRatio) items.push(make("li", {}, make("i", { class: "single", mark: "var(--middle)" }), "noise"));
  if (kinds.has("failed")) items.push(make("li", {}, swatch(hatch.failed), "failed, unsupported or not finite"));
  if (kinds.has("skipped")) items.push(make("li", {}, swatch(hatch.skipped), "not measured yet"));
  if (kinds.has("forced")) items.push(make("li", {}, swatch(hatch.forced), "no information: k is not below the smaller dimension"));
  if (kinds.has("noratio")) items.push(make("li", {}, swatch(hatch.noratio), "no ratio: the shape has no null, or of another sign"));
  if (kinds.has("undefined")) items.push(make("li", {}, swatch(hatch.undefined), "NaN: not defined"));
  if (cells.some((cell) => cell.partly)) items.push(make("li", {}, "\u25e4 some matrices of the cell were not measured"));
  return make("ul", { class: "legend", "aria-label": "Colours: upper bounds of the classes" }, items);
};

/** Rows of the map: a line for every block, under it one for each of its roles. */
const lines = (files) => {
  const out = [];
  let block = null;
  for (const role of roles(files)) {
    if (role.block !== block) out.push({ line: out.length, block: (block = role.block), text: block.replace("_", " ") });
    out.push({ line: out.length, ...role, text: short(role.role, 22) });
  }
  return out;
};

const cellsOf = (file, groups, places, along, isRatio) => groups.map((group) => {
  const value = isRatio ? group.ratio : group.median;
  const middle = along.position(file, group.layer), half = along.half(file);
  const [x0, x1] = group.layer < 0 ? [0, 1] : [middle - half, middle + half];
  // A value without a null, or of another sign than it, has no ratio.
  const why = Number.isFinite(value) && !(isRatio && value <= 0) ? "" : group.why || (Number.isFinite(group.median) ? "noratio" : "undefined");
  const unmeasured = Object.entries(group.statuses).some(([status]) => status !== "measured");
  return { ...group, rows: group.rows.length, row: group.rows[0], value: why ? null : value, why, fill: why ? hatch[why] : null, x0, x1,
    off: group.layer < 0, line: places.get(`${group.block}\u0000${group.role}`), partly: !why && unmeasured };
});

const tipOf = (metric, file) => (cell) => ({
  title: `${cell.layer < 0 ? "no layer" : `layer ${cell.layer}`}, ${cell.block} ${cell.role}`,
  rows: cell.why && cell.why !== "noratio" ? [[metric, "no value"], ["why", whyText(cell) || "not defined (NaN)"], ["matrices", count(cell.rows)]] : [
    ...(cell.why ? [["no ratio", "the shape has no null, or of another sign"]] : []),
    [cell.rows > 1 ? `${metric}, median` : metric, number(cell.median)],
    ["null (noise)", cell.nullsDiffer ? "differs: several shapes" : file.hasNull(metric) ? number(cell.null) : "none for this metric"],
    ...(Number.isFinite(cell.ratio) ? [["ratio to null", number(cell.ratio)]] : []),
    ...(cell.rows > 1 ? [["q25 to q75", `${number(cell.q25)} to ${number(cell.q75)}`], ["matrices", count(cell.rows)]] : []),
    ...(cell.partly ? [["status", Object.entries(cell.statuses).map(([name, n]) => `${n} ${name}`).join(", ")]] : []),
  ],
});

/** Arrow keys: the next cell in that direction. */
const walker = (cells) => (from, key) => {
  if (!from) return cells[0] ?? null;
  const middle = (cell) => (cell.off ? -1e9 : (cell.x0 + cell.x1) / 2);
  const isAcross = key === "ArrowLeft" || key === "ArrowRight" || key === "Home" || key === "End";
  const others = cells.filter((cell) => (isAcross ? cell.line === from.line : cell.line !== from.line));
  if (key === "Home" || key === "End") {
    const row = others.sort((a, b) => middle(a) - middle(b));
    return key === "Home" ? row[0] : row[row.length - 1];
  }
  const sign = key === "ArrowLeft" || key === "ArrowUp" ? -1 : 1;
  const ahead = isAcross ? others.filter((cell) => sign * (middle(cell) - middle(from)) > 0)
    : others.filter((cell) => sign * (cell.line - from.line) > 0);
  const far = (cell) => (isAcross ? 0 : Math.abs(cell.line - from.line) * 1e12) + Math.abs(middle(cell) - middle(from));
  return ahead.sort((a, b) => far(a) - far(b))[0] ?? from;
};

exports.draw = async (body, allFiles) => {
  const files = await prepare(allFiles);
  if (files.length === 0) return body.append(nothing("None of the files is of `vindex measure`: there are no spectra to show."));
  if (files.every((file) => file.count === 0)) return body.append(nothing("The run selected no matrix."));
  const metric = select("Metric", metricOptions(files), choices.metric, (value) => choices.set({ metric: value }));
  const shown = select("Colour", [{ value: "ratio", text: "ratio to null" }, { value: "value", text: "value" }], choices.shown,
    (value) => choices.set({ shown: value }));
  const maps = make("div", {});
  body.append(make("div", { class: "controls" }, metric.element, shown.element), maps);
  const update = async () => {
    const hasNull = files.some((file) => file.hasNull(choices.metric));
    metric.select.value = choices.metric;
    shown.select.disabled = !hasNull;
    shown.select.value = hasNull ? choices.shown : "value";
    const isRatio = shown.select.value === "ratio";
    const rows = lines(files), along = depth(files);
    const places = new Map(rows.filter((row) => row.role).map((row) => [`${row.block}\u0000${row.role}`, row.line]));
    const cells = await Promise.all(files.map(async (file) =>
      cellsOf(file, await file.groups(choices.metric), places, along, isRatio)));
    const values = cells.flat().filter((cell) => !cell.why).map((cell) => cell.value);
    const bounds = isRatio ? ratioBounds(values) : valueBounds(values);
    const colours = isRatio ? ratioColours : valueColours(bounds);
    const what = isRatio ? `${choices.metric}, ratio to its null` : choices.metric;
    const depthText = along.isRelative ? "Layers of several files are at their relative depth: layer by last layer." : "";
    maps.replaceChildren(make("p", { class: "lead" }, depthText), legend(bounds, colours, isRatio, cells.flat()), ...files.map((file, i) => make("figure", {},
      make("figcaption", {}, fileLabel(file, files), files.length > 1 ? ": " : "", what),
      chart("overview", {
        label: `Heat map of ${what} by layer and role of ${file.label}; arrow keys walk over its cells, Enter shows a cell's spectrum`,
        height: rows.length * 17 + 44,
        data: { cells: cells[i], rows, focus: [] },
        signals: { domain: along.domain, bounds, colours, lines: rows.length, depthTitle: along.title,
          hasOff: cells.flat().some((cell) => cell.off), isRelative: along.isRelative },
        width: (available) => Math.max(available, 150 + 5 * (file.lastLayer + 1)),
        tip: tipOf(choices.metric, file),
        pick: (cell) => { if (cell.row !== undefined) choices.show(file.index, cell.row); },
        walk: walker(cells[i]),
      }))));
  };
  choices.watch((changes) => { if ("metric" in changes || "shown" in changes) update(); });
  await update();
};
