// Owns #cka: every layer of A with every layer of B, neighbours in A, layers at the same depth.
const { number, select } = require("tools");
const { isNumber } = require("cells");
const { drawEach, gridCells, blockText, steps } = require("figure");

exports.id = "cka";
exports.kind = "cka";
exports.title = "Layers of two models";
exports.lead = "Linear centred kernel alignment (CKA) of activations on the same rows: 1 is the same up to rotation and scale, " +
  "0 unrelated. The null is that of permuted prompts.";

const scale = steps([0.05, 0.1, 0.2, 0.35, 0.5, 0.65, 0.8, 0.95]);

const everyLayer = (figure, file) => {
  const layers = Array.from(file.column("layer")), others = file.scales.layers_b;
  const lists = (name) => layers.map((unused, row) => file.list(name, row));
  const all = Object.fromEntries(["cka", "cka_biased", "null_mean", "null_q95", "p", "ci_low", "ci_high"].map((name) => [name, lists(name)]));
  const at = (name, cell) => all[name][cell.row]?.[cell.other] ?? NaN;
  const show = (name) => {
    const grid = gridCells(others, layers, (i, j) => {
      const cell = { row: i, other: j };
      const value = at(name, cell), limit = at("null_q95", cell);
      return { ...cell, value, marked: name === "cka" && file.at("best_layer_b", i) === others[j],
        state: name === "cka" && isNumber(limit) && !(value > limit) ? "noise" : "value" };
    });
    figure.grid({ ...grid, label: `${name} of every layer of A with every layer of B`, isSquare: true, xTitle: "layer of B", yTitle: "layer of A",
      scale,
      key: [["outline", "the layer of B nearest to a layer of A"], ["dot", "not above 95 % of permutations"], ["missing", "no value"]],
      describe: (cell) => [["layer", `${layers[cell.row]} of A, ${others[cell.other]} of B`], ["cka", number(at("cka", cell))],
        ["null: mean, 95 %", `${number(at("null_mean", cell))}, ${number(at("null_q95", cell))}`], ["p", number(at("p", cell))],
        ["95 % interval", `${number(at("ci_low", cell))} to ${number(at("ci_high", cell))}`], ["biased estimator", number(at("cka_biased", cell))],
        ...(file.column("reason")[cell.row] ? [["why NaN", file.column("reason")[cell.row]]] : [])] });
  };
  figure.controls(select("Estimator", [{ value: "cka", text: "unbiased" }, { value: "cka_biased", text: "biased, as most published figures" }],
    "cka", show));
  show("cka");
  figure.note("The biased estimator overstates where features are many compared with rows; its null is far from 0.");
  const text = blockText(gridCells(others, layers, () => null).block);
  if (text) figure.note(text);
};

const neighbours = (figure, file) => {
  const layers = Array.from(file.column("layer"));
  const breaks = new Set((String(file.attributes.stages_breaks ?? "").match(/-?\d+/g) ?? []).map(Number));
  const limits = String(file.attributes.stages_limits ?? "").split(" ").map((text) => (text === "" ? NaN : Number(text)));
  const points = layers.slice(0, -1).map((layer, row) => {
    const value = file.at("adjacent_cka", row), error = file.at("adjacent_cka_se", row);
    return { panel: "", x: layer, value, low: value - 2 * error, high: value + 2 * error, null: limits[row] ?? NaN, error, marked: breaks.has(layer),
      next: layers[row + 1] };
  });
  figure.lines({ label: "CKA of every layer of A and the next one, beside the limit of a break", points,
    xTitle: "layer of A (and the next one)",
    key: [["line", "CKA of a layer and the next, two standard errors"], ["null", "limit of a break, by the trend of its neighbours"],
      ["diamond", "a stage ends"]],
    describe: (point) => [["layers", `${point.x} and ${point.next}`], ["cka", number(point.value)], ["standard error", number(point.error)],
      ["limit of a break", number(point.null)], ...(point.marked ? [["a stage ends", "here"]] : [])] });
  const stages = file.attributes.stages;
  figure.note(isNumber(stages)
    ? `Stages of A: ${stages}. A stage ends where CKA lies below its neighbours on either side by 3 \u00d7 1.4826 \u00d7 MAD and by ` +
      "three of its standard errors."
    : "The number of stages is not known: that takes the standard error of every pair of neighbours.");
};

const depths = (figure, file) => {
  const matched = file.tables.matched;
  const points = matched.depth.map((depth, i) => ({ panel: "", x: Math.round(1000 * depth) / 10, value: matched.cka[i], null: matched.null_q95[i],
    at: i }));
  figure.lines({ label: "CKA of layers at the same relative depth, beside 95 % of permutations", points, xTitle: "relative depth, %",
    key: [["line", "CKA"], ["null", "95 % of permutations"], ["cross", "no value"]],
    describe: ({ at }) => [["depth", `${number(100 * matched.depth[at], true)} %`],
      ["layers", `${matched.layer_a[at]} of A, ${matched.layer_b[at]} of B`],
      ["cka", number(matched.cka[at])], ["null, 95 %", number(matched.null_q95[at])], ["p", number(matched.p[at])],
        ["biased estimator", number(matched.cka_biased[at])]] });
};

exports.draw = drawEach("cka", (section, file) => {
  everyLayer(section.figure("Every layer of A with every layer of B"), file);
  neighbours(section.figure("Neighbouring layers of A"), file);
  if (file.tables.matched?.depth.length > 0) depths(section.figure("Layers at the same relative depth"), file);
});
