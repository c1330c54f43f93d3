// Owns #compare: what changed from A to B, by layer and role, within a role, the largest changes, what has no pair.
const { make, number, select, count, plural } = require("tools");
const { isNumber, nullText, spread, common } = require("cells");
const { drawEach, gridCells, even, table, shortName } = require("figure");

exports.id = "compare";
exports.kind = "compare";
exports.title = "Pairs of two models";
exports.lead = "Every matrix of A beside its matrix of B. A relative error means little without its null: unrelated weights of equal norm have 1.41.";

/** What can be shown of a pair, and what unrelated weights, random directions or noise of that shape give. */
const column = (name) => (file) => (row) => file.at(name, row);
const unrelated = (file) => (row) => Math.sqrt(1 + (file.at("norm_b", row) / file.at("norm_a", row)) ** 2);
const measures = [
  { name: "relative_error", isLog: true, null: unrelated, of: "unrelated weights of these norms" },
  { name: "cosine", null: () => () => 0, sd: column("cosine_null_sd"), of: "unrelated weights" },
  ...["effective_rank", "stable_rank", "spectral_norm"].map((name) =>
    ({ name: `delta_${name}`, isLog: true, null: column(`delta_${name}_null`), of: "noise of the shape" })),
  { name: "delta_theta", null: column("delta_theta_null"), of: "noise of the shape" },
  { name: "delta_rank_gd", null: () => () => 0, of: "noise" },
  ...["overlap_right", "overlap_left"].map((name) => ({ name, null: column(`${name}_null`), sd: column(`${name}_null_sd`),
    of: "random directions" })),
  ...["var_at_64", "stable_rank", "effective_rank", "hill_alpha"].map((name) =>
    ({ name: `${name}_difference`, null: () => () => 0, of: "equal spectra", noise: column(`${name}_null`) })),
];

const plain = new Set(["embedding", "router", "attention", "output", "other"]);
const roleOf = (file, row) => {
  const block = file.column("block")[row], role = file.column("role")[row];
  return plain.has(block) ? role : `${block.replace(/_expert$|_mlp$/, "")} ${role}`;
};
const layerText = (layer) => (layer < 0 ? "none" : String(layer));

/** Rows by layer and role, roles in the file's order. */
const grouped = (file) => {
  const groups = new Map(), roles = new Set(), layers = new Set();
  for (let row = 0; row < file.count; ++row) {
    const layer = file.at("layer", row), role = roleOf(file, row), key = `${layer}\u0000${role}`;
    roles.add(role);
    layers.add(layer);
    if (!groups.has(key)) groups.set(key, { layer, role, rows: [] });
    groups.get(key).rows.push(row);
  }
  return { of: (layer, role) => groups.get(`${layer}\u0000${role}`), roles: [...roles], layers: [...layers].sort((a, b) => a - b) };
};

const summary = (file, measure, group) => {
  const expected = measure.null(file), sd = measure.sd ? measure.sd(file) : () => NaN, values = file.column(measure.name);
  const found = spread(group.rows.map((row) => values[row]));
  return { ...group, ...found, null: spread(group.rows.map(expected)).median, sd: common(group.rows.map(sd)),
    noise: measure.noise ? common(group.rows.map(measure.noise(file))) : NaN,
    reasons: [...new Set(group.rows.map((row) => file.column("reason")[row]).filter(Boolean))].slice(0, 2).map(shortName).join("; ") };
};

const describe = (measure) => ({ found }) => [
  [`layer ${layerText(found.layer)},`, found.role],
  [found.rows.length > 1 ? `${measure.name}, median` : measure.name, number(found.median)],
    ["null", `${nullText(found.null, found.sd)} (${measure.of})`],
  ...(isNumber(found.noise) ? [["of noise of the shape, each", number(found.noise)]] : []),
  ...(found.count > 1 ? [["q25 to q75", `${number(found.low)} to ${number(found.high)}`],
    ["range", `${number(found.least)} to ${number(found.most)}`], ["pairs", count(found.count)]] : []),
  ...(found.count < found.rows.length ? [["without a value",
    `${count(found.rows.length - found.count)} of ${count(found.rows.length)}${found.reasons ? `: ${found.reasons}` : ""}`]] : []),
];

const draws = (file, groups) => ({
  overview(figure, measure) {
    const grid = gridCells(groups.layers, groups.roles, (i, j) => {
      const group = groups.of(groups.layers[j], groups.roles[i]);
      if (!group) return null;
      const found = summary(file, measure, group), z = (found.median - found.null) / found.sd;
      return { value: found.median, state: Math.abs(z) < 2 ? "noise" : "value", found };
    }, 0, false);
    for (const cell of grid.cells) cell.x = layerText(cell.x);
    figure.grid({ ...grid, xs: grid.xs.map(layerText), label: `${measure.name} by layer and role`, xTitle: "layer of A", labelWidth: 130,
      scale: even(grid.cells.map(({ value }) => value), measure.isLog),
        key: [["missing", "no value"], ["dot", "within two standard deviations of the null"]], describe: describe(measure) });
  },
  byLayer(figure, measure) {
    const points = groups.roles.flatMap((role) => groups.layers.map((layer) => groups.of(layer, role)).filter(Boolean).map((group) => {
      const found = summary(file, measure, group);
      return { panel: role, x: group.layer, value: found.median, low: found.count > 1 ? found.low : NaN, high: found.count > 1 ? found.high : NaN,
        null: found.null,
        nullLow: found.null - 2 * found.sd, nullHigh: found.null + 2 * found.sd, found };
    }));
    figure.lines({ label: `${measure.name} by layer, a panel for every role`, points, xTitle: "layer of A", isLog: measure.isLog ?? false,
      key: [["line", "median; bar: q25 to q75"], ["null", measure.of],
        ["cross", measure.isLog ? "no value, or 0 on a logarithmic scale" : "no value"]], describe: describe(measure) });
  },
});

const PAIRS = 20;
const largest = (section, file) => {
  const error = file.column("relative_error"), expected = unrelated(file);
  const rows = Array.from({ length: file.count }, (unused, row) => row).filter((row) => isNumber(error[row])).sort((a, b) =>
    error[b] - error[a]).slice(0, PAIRS);
  if (rows.length === 0) return;
  section.add(table(`Largest relative errors: ${rows.length} of ${count(file.count)} pairs`,
    ["tensor of A", "encodings", "relative error", "null", "cosine", "null"],
    rows.map((row) => [shortName(file.column("tensor_a")[row]), `${file.column("encoding_a")[row]} \u2192 ${file.column("encoding_b")[row]}`,
      error[row], expected(row),
      file.at("cosine", row), nullText(0, file.at("cosine_null_sd", row))])));
};
const unpaired = (section, file) => {
  const left = file.tables.unpaired;
  if (!left || left.count === 0) return;
  const shown = Math.min(left.tensor.length, 200);
  section.add(table(`Without a pair: ${shown} of ${count(left.count)}`, ["model", "tensor", "why"],
    Array.from({ length: shown }, (unused, i) => [left.side[i], shortName(left.tensor[i]), left.reason[i]])));
};

exports.draw = drawEach("compare", (section, file) => {
  const groups = grouped(file), known = measures.filter(({ name }) => file.column(name)?.some(isNumber));
  if (known.length > 0) {
    const drawn = draws(file, groups);
    for (const [which, heading] of [["overview", "By layer and role"], ["byLayer", "Within a role"]]) {
      const figure = section.figure(heading, true);
      const show = (name) => drawn[which](figure, known.find((measure) => measure.name === name));
      figure.controls(select("Measure", known.map(({ name }) => ({ value: name, text: name })), known[0].name, show));
      show(known[0].name);
    }
  }
  const same = file.column("same_bits").reduce((sum, bits) => sum + (bits === 1 ? 1 : 0), 0);
  if (same > 0) section.add(make("p", { class: "note wide" }, `${count(same)} of ${plural(file.count, "pair")} are equal bit for bit.`));
  largest(section, file);
  unpaired(section, file);
});
