// Owns #activations: statistics of dumped activations by layer, beside those of independent Gaussians or equal logits.
const { number, select } = require("tools");
const { isNumber, nullText } = require("cells");
const { drawEach } = require("figure");

exports.id = "activations";
exports.kind = "activations";
exports.title = "Activations";
exports.lead = "Statistics of each dumped array. The null is that of products of independent Gaussians of the same shape, of equal logits, or of " +
  "unrelated rows of the gate.";

const statistics = ["hoyer", "hoyer_token", "neuron_variance", "dead_neurons", "kurtosis", "effective_rank", "top8_mass", "output_entropy",
  "gate_adjacent_cosine", "gate_mean_abs_cosine"];

exports.draw = drawEach("activations", (section, file) => {
  const figure = section.figure("By layer", true);
  const roles = [...new Set(file.column("role"))], thresholds = file.scales.threshold;
  const rows = Array.from({ length: file.count }, (unused, row) => row)
    .sort((a, b) => roles.indexOf(file.column("role")[a]) - roles.indexOf(file.column("role")[b]) || a - b);
  const kinds = [
    ...thresholds.map((threshold, i) => ({ name: `sparsity at ${threshold}`, value: (row) => file.list("sparsity", row)?.[i] ?? NaN,
      null: (row) => file.list("sparsity_null", row)?.[i] ?? NaN, sd: () => NaN })),
    ...statistics.filter((name) => file.column(name)?.some(isNumber)).map((name) => ({ name, value: (row) => file.at(name, row),
      null: (row) => file.at(`${name}_null`, row), sd: (row) => file.at(`${name}_null_sd`, row) })),
  ];
  const show = (name) => {
    const kind = kinds.find((one) => one.name === name);
    // A role of which no array has the statistic has no panel.
    const there = new Set(rows.filter((row) => isNumber(kind.value(row))).map((row) => file.column("role")[row]));
    const points = rows.filter((row) => there.has(file.column("role")[row])).map((row) => {
      const expected = kind.null(row), sd = kind.sd(row);
      return { panel: file.column("role")[row], x: file.at("layer", row), value: kind.value(row), null: expected, nullLow: expected - 2 * sd,
        nullHigh: expected + 2 * sd, sd, row };
    });
    figure.lines({ label: `${name} by layer and kind of array, beside its null`, points, xTitle: "layer",
      key: [["line", name], ["null", "independent values of that shape"], ["cross", "no value"]],
      describe: (point) => [["array", file.column("tensor")[point.row]], [name, number(point.value)], ["null", nullText(point.null, point.sd)],
        ["rows x columns", `${file.at("rows", point.row)} x ${file.at("cols", point.row)}`],
        ...(file.column("reason")[point.row] ? [["why NaN", file.column("reason")[point.row]]] : [])] });
  };
  figure.controls(select("Statistic", kinds.map(({ name }) => ({ value: name, text: name })), kinds[0].name, show));
  show(kinds[0].name);
});
