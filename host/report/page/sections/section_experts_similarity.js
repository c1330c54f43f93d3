// Owns #experts-similarity: how alike the experts of a layer are, by layer and for one group.
const { number, select } = require("tools");
const { isNumber, nullText } = require("cells");
const { drawEach, gridCells, blockText, withinText, tooLarge, around } = require("figure");

exports.id = "experts-similarity";
exports.kind = "experts";
exports.title = "Similarity of experts";
exports.lead = "How similar the experts of a layer are, beside experts of independent noise of the same shape.";

const statistics = ["cosine_max", "cosine_mean", "cosine_centred_max", "cosine_centred_mean", "mean_expert_share", "effective_rank", "rank_90",
  "overlap_right_mean", "overlap_left_mean"];
const matrices = ["cosine", "cosine_centred", "overlap_right", "overlap_left"];

/** The null of a mean is that of one pair, with a deviation of its own. */
const nullOf = (file, name, row) => {
  const own = file.at(`${name}_null`, row);
  return { value: isNumber(own) ? own : file.at(`${name.replace(/_mean$/, "")}_null`, row), sd: file.at(`${name}_null_sd`, row) };
};
const groupText = (file, row) => `layer ${file.at("layer", row)}, ${file.column("role")[row]}`;
const why = (file, row) => (file.column("reason")[row] ? [["why NaN", file.column("reason")[row]]] : []);

const byLayer = (figure, file) => {
  const roles = [...new Set(file.column("role"))];
  const rows = Array.from({ length: file.count }, (unused, row) => row).sort((a, b) =>
    roles.indexOf(file.column("role")[a]) - roles.indexOf(file.column("role")[b]) || a - b);
  const known = statistics.filter((name) => file.has(name));
  const show = (name) => {
    const points = rows.map((row) => {
      const { value, sd } = nullOf(file, name, row);
      return { panel: file.column("role")[row], x: file.at("layer", row), value: file.at(name, row), null: value, nullLow: value - 2 * sd,
        nullHigh: value + 2 * sd, sd, row };
    });
    figure.lines({ label: `${name} by layer and role, beside independent noise`, points, xTitle: "layer",
      key: [["line", name], ["null", "experts of independent noise, two standard deviations where known"], ["cross", "no value"]],
      describe: (point) => [["group:", groupText(file, point.row)], [name, number(point.value)], ["null", nullText(point.null, point.sd)],
        ...(name.endsWith("_max") ? [["experts",
          `${number(file.at(`${name}_expert`, point.row), true)} and ${number(file.at(`${name}_other`, point.row), true)}`]] : []),
        ["experts of the group", number(file.at("experts_counted", point.row), true)], ...why(file, point.row)] });
  };
  figure.controls(select("Statistic", known.map((value) => ({ value, text: value })), known[0], show));
  show(known[0]);
};

const groupSelect = (file, held, chosen, change) =>
  select("Group", held.map((value) => ({ value, text: groupText(file, value) })), chosen, (value) => change(Number(value)));

const everyTwo = async (figure, file, held) => {
  const names = matrices.filter((name) => file.file.squares.includes(name));
  let row = held[0], name = names[0];
  const show = () => figure.latest(() => file.square(name, row), (values) => {
    if (!values) return figure.empty("No values: the file says why in the group's reason.");
    const experts = file.scales.expert.slice(0, file.at("experts", row));
    const expected = file.at(`${name}_null`, row), sd = file.at(`${name}_null_sd`, row);
    const grid = gridCells(experts, experts, (i, j, limit) => {
      if (i === j) return null;
      const value = values(i, j), z = (value - expected) / sd;
      return { value, z, i, j, state: Math.abs(z) < limit ? "noise" : "value" };
    }, expected);
    figure.grid({ ...grid, label: `${name} of every two experts, ${groupText(file, row)}`, isSquare: true, xTitle: "expert", yTitle: "expert",
      scale: around(grid.cells.map(({ value }) => value), expected, sd, grid.limit),
        key: [["dot", withinText(grid.block, "noise")], ["missing", "no value"]],
      describe: (cell) => [["experts", `${experts[cell.i]} and ${experts[cell.j]}`], [name, number(cell.value)], ["null", nullText(expected, sd)],
        ["z", number(cell.z)]] });
  });
  figure.controls(groupSelect(file, held, row, (value) => { row = value; show(); }),
    select("Matrix", names.map((value) => ({ value, text: value })), name, (value) => { name = value; show(); }));
  await show();
  const text = blockText(gridCells(file.scales.expert, file.scales.expert, () => null).block);
  if (text) figure.note(text);
  if (held.length < file.heldOf) {
    figure.note(`The page holds the matrices of ${held.length} of ${file.heldOf} groups, those with the most similar experts; ` +
      "the results file holds all.");
  }
};

const axis = (figure, file, rows) => {
  const show = (row) => {
    const values = file.list("expert_axis_spectrum", row), expected = file.list("expert_axis_spectrum_null", row);
    const points = Array.from({ length: file.at("experts_counted", row) || 0 },
      (unused, i) => ({ panel: "", x: i + 1, value: values[i], null: expected ? expected[i] : NaN }));
    const beside = (name) => `${number(file.at(name, row))}, null ${number(file.at(`${name}_null`, row))}`;
    figure.lines({ label: `Eigenvalues between experts, ${groupText(file, row)}, beside those of noise`, points,
      xTitle: "eigenvalue, largest first",
      key: [["line", "centred Gram matrix of the experts"], ["null", "Marchenko\u2013Pastur: noise of that shape and trace"]],
      describe: (point) => [["eigenvalue", String(point.x)], ["value", number(point.value)], ["null", number(point.null)],
        ["effective rank", beside("effective_rank")], ["rank_90", beside("rank_90")]] });
  };
  figure.controls(groupSelect(file, rows, rows[0], show));
  show(rows[0]);
};

exports.draw = drawEach("experts", async (section, file) => {
  byLayer(section.figure("By layer", true), file);
  const measured = Array.from({ length: file.count }, (unused, row) => row).filter((row) => file.at("experts_counted", row) > 0);
  const held = measured.filter((row) => file.held.has(row));
  if (held.length > 0) await everyTwo(section.figure("Every two experts"), file, held);
  else if (file.heldOf > 0) section.figure("Every two experts").empty(tooLarge("matrices", file.heldOf));
  if (measured.length > 0) axis(section.figure("Spectrum between experts"), file, measured);
});
