// Owns #routing: loads of experts, statistics of a layer, experts chosen together; each beside uniform routing.
const { number, select } = require("tools");
const { isNumber, nullText } = require("cells");
const { drawEach, gridCells, blockText, withinText, tooLarge, around, beside } = require("figure");

exports.id = "routing";
exports.kind = "routing";
exports.title = "Routing";
exports.lead = "What a router chose for the tokens of a dump. The null is uniform routing of as many tokens by the same rule.";

const statistics = ["load_cv", "load_entropy", "gini", "max_over_mean", "dead_experts", "router_entropy", "margin", "coactivation_lift_max",
  "transition_lift_max"];

const loads = (figure, file) => {
  const layers = Array.from(file.column("layer")), experts = file.scales.expert;
  const perLayer = layers.map((unused, row) => ({ load: file.list("load", row), weight: file.list("mean_weight", row) }));
  const grid = gridCells(experts, layers, (i, j, limit) => {
    if (j >= file.at("cols", i)) return null;
    const load = perLayer[i].load?.[j] ?? NaN, expected = file.at("load_null", i), z = (load - expected) / file.at("load_null_sd", i);
    return { value: isNumber(load) ? load / expected : NaN, load, z, row: i, expert: j, marked: load === 0,
      state: Math.abs(z) < limit ? "noise" : "value" };
  }, 1, false);
  const scale = beside([0.25, 0.4, 0.6, 0.75, 0.9, 1.1, 1.33, 1.67, 2.5, 4]);
  figure.grid({ ...grid, label: "Load of every expert of every layer over an even share", xTitle: "expert", yTitle: "layer", scale,
    key: [["dot", withinText(grid.block, "uniform routing")], ["outline", "no token chose it"], ["missing", "no value"]],
    describe: (cell) => [["layer", `${layers[cell.row]}, expert ${experts[cell.expert]}`], ["load", number(cell.load)],
      ["null", nullText(file.at("load_null", cell.row), file.at("load_null_sd", cell.row))], ["load over null", number(cell.value)],
        ["z", number(cell.z)],
      ["mean weight", number(perLayer[cell.row].weight?.[cell.expert])],
        ["null of it", nullText(file.at("mean_weight_null", cell.row), file.at("mean_weight_null_sd", cell.row))],
      ...(file.column("reason")[cell.row] ? [["why NaN", file.column("reason")[cell.row]]] : [])] });
  figure.note(`Colour: load over an even share, 1 is the null. ${blockText(grid.block)}`);
};

const byLayer = (figure, file) => {
  const layers = Array.from(file.column("layer"));
  const show = (name) => {
    const points = layers.map((layer, row) => {
      const expected = file.at(`${name}_null`, row), sd = file.at(`${name}_null_sd`, row);
      return { panel: "", x: layer, value: file.at(name, row), null: expected, nullLow: expected - 2 * sd, nullHigh: expected + 2 * sd, sd, row };
    });
    figure.lines({ label: `${name} by layer, beside uniform routing`, points, xTitle: "layer",
      key: [["line", name], ["null", "uniform routing, two standard deviations"], ["cross", "no value"]],
      describe: (point) => [["layer", String(point.x)], [name, number(point.value)], ["null", nullText(point.null, point.sd)],
        ...(isNumber(file.at(`${name}_p`, point.row)) ? [["p", number(file.at(`${name}_p`, point.row))]] : []),
        ...(file.column("reason")[point.row] ? [["why NaN", file.column("reason")[point.row]]] : [])] });
  };
  figure.controls(select("Statistic", statistics.filter((name) => file.has(name)).map((value) => ({ value, text: value })), "load_cv", show));
  show("load_cv");
};

const lifts = async (figure, file) => {
  const layers = Array.from(file.column("layer")), held = layers.map((unused, row) => row).filter((row) => file.held.has(row));
  let row = held[0], name = "coactivation_lift";
  const show = () => figure.latest(() => Promise.all([file.square(name, row), file.square(`${name}_p`, row)]), ([lift, tail]) => {
    if (!lift) return figure.empty("No values: there is no mixture layer before this one.");
    const expected = file.at(`${name}_null`, row), sd = file.at(`${name}_null_sd`, row), isPair = name === "coactivation_lift";
    const experts = file.scales.expert.slice(0, file.at("cols", row));
    const { block } = gridCells(experts, experts, () => null);
    const grid = gridCells(experts, experts, (i, j, limit) => {
      if (isPair && i === j) return null;
      const value = lift(i, j), p = tail ? tail(i, j) : NaN, z = (value - expected) / sd;
      return { value, p, z, i, j, state: (isNumber(p) ? p > 0.05 / block : Math.abs(z) < limit) ? "noise" : "value" };
    }, expected);
    const before = file.at("previous_layer", row), same = file.at(`${name}_null_same_group`, row);
    figure.grid({ ...grid, label: `${name} of layer ${layers[row]}`, isSquare: true, xTitle: isPair ? "expert" : `expert of layer ${layers[row]}`,
      yTitle: isPair ? "expert" : `expert of layer ${before}`, scale: around(grid.cells.map(({ value }) => value), expected, sd, grid.limit, 0),
      key: [["dot", `${withinText(block, "uniform routing")}, or p above ${Number((0.05 / block).toPrecision(2))}`], ["missing", "no value"]],
      describe: (cell) => [["experts", `${experts[cell.i]} ${isPair ? "and" : "then"} ${experts[cell.j]}`], [name, number(cell.value)],
        ["null", nullText(expected, sd)],
        ...(isPair && isNumber(same) ? [["null in one group", nullText(same, file.at(`${name}_null_same_group_sd`, row))]] : []),
        isNumber(cell.p) ? ["p (expected fewer than 5 times)", number(cell.p)] : ["z", number(cell.z)]] });
  });
  figure.controls(
    select("Layer", held.map((value) => ({ value, text: String(layers[value]) })), row, (value) => { row = Number(value); show(); }),
    select("Chosen", [{ value: "coactivation_lift", text: "by one token" }, { value: "transition_lift", text: "in consecutive layers" }], name,
      (value) => { name = value; show(); }));
  await show();
  if (held.length < file.heldOf) {
    figure.note(`The page holds ${held.length} of ${file.heldOf} layers, those with the largest lifts; the results file holds all.`);
  }
};

exports.draw = drawEach("routing", async (section, file) => {
  loads(section.figure("Load of experts", true), file);
  byLayer(section.figure("Statistics by layer"), file);
  if (file.held.size > 0) await lifts(section.figure("Experts chosen together"), file);
  else if (file.heldOf > 0) section.figure("Experts chosen together").empty(tooLarge("arrays", file.heldOf));
});
