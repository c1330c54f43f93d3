// Owns #layers: for each (block, role) the median and quartiles over the matrices of a layer, along the layers, with the null.
const { make, select, number, nothing, choices, fileColour, count, plural } = require("tools");
const { chart } = require("chart");
const { prepare, depth, roles, metricOptions, roleName, whyText } = require("measure");

exports.id = "layers";
exports.kind = "measure";
exports.title = "Layers";
exports.lead = "Median of a metric over the matrices of each layer, with the band from the lower to the upper quartile where a " +
  "layer has several. The dashed line is the null: what independent noise of that shape gives.";

/** The range of all numbers drawn, with some air; null where there is none. */
const range = (points) => {
  const values = points.flatMap((point) => [point.q25, point.q75, point.median, point.null]).filter(Number.isFinite);
  if (values.length === 0) return null;
  const low = Math.min(...values), high = Math.max(...values), air = (high - low || Math.abs(high) || 1) * 0.06;
  return [low - air, high + air];
};

const tipOf = (files, metric) => (point) => {
  const file = files.find((one) => one.index === point.file);
  return {
    title: `${files.length > 1 ? `${file.label}, ` : ""}layer ${point.layer}, ${point.block} ${point.role}`,
    rows: point.why ? [[metric, "no value"], ["why", whyText(point)]] : [
      [point.values > 1 ? `${metric}, median` : metric, number(point.median)],
      ["null (noise)", point.nullsDiffer ? "differs: several shapes" : file.hasNull(metric) ? number(point.null) : "none for this metric"],
      ...(Number.isFinite(point.ratio) ? [["ratio to null", number(point.ratio)]] : []),
      ...(point.values > 1 ? [["q25 to q75", `${number(point.q25)} to ${number(point.q75)}`], ["matrices", count(point.values)]] : []),
      ...(files.length > 1 ? [["relative depth", number(point.x)]] : []),
    ],
  };
};

const legend = (files) => make("ul", { class: "legend" },
  files.map((file) => make("li", {}, make("i", { class: "line", mark: fileColour(file.index) }),
    files.length > 1 ? `${file.label}, median` : "median")),
  make("li", {}, make("i", { class: "band", mark: "var(--file-0)" }), "q25 to q75"),
  make("li", {}, make("i", { class: "line dashed", mark: files.length > 1 ? "var(--soft)" : "var(--null)" }), "null (noise)"),
  make("li", {}, "\u00d7 no value"));

exports.draw = async (body, allFiles) => {
  const files = await prepare(allFiles);
  const there = files.filter((file) => [...file.group.values()].some((group) => group.layer >= 0));
  if (files.length === 0) return body.append(nothing("None of the files is of `vindex measure`."));
  if (there.length === 0) return body.append(nothing("No matrix of these files belongs to a layer: the heat map above has those that there are."));
  const metric = select("Metric", metricOptions(files), choices.metric, (value) => choices.set({ metric: value }));
  const charts = make("div", { class: "grid" });
  body.append(make("div", { class: "controls" }, metric.element), legend(there), charts);
  const along = depth(there);
  const update = async () => {
    metric.select.value = choices.metric;
    const points = (await Promise.all(there.map(async (file) => (await file.groups(choices.metric))
      .filter((group) => group.layer >= 0)
      .map((group) => ({ ...group, rows: null, x: along.position(file, group.layer), colour: fileColour(file.index),
        // Files of nearly equal values lie on each other: the first is the widest.
        wide: 1.8 + 2 * (there.length - 1 - there.indexOf(file)) })))))
      .flat().sort((a, b) => a.file - b.file || a.layer - b.layer);
    charts.replaceChildren(...roles(there).flatMap(({ block, role }) => {
      const own = points.filter((point) => point.block === block && point.role === role);
      if (own.length === 0) return [];
      const domain = range(own);
      const known = own.filter((point) => !point.why);
      // A point without a neighbour has no line and no band: its null and quartiles are marks of their own.
      const neighbours = new Set(known.map((point) => `${point.file} ${point.layer}`));
      for (const point of known) {
        point.alone = !neighbours.has(`${point.file} ${point.layer - 1}`) && !neighbours.has(`${point.file} ${point.layer + 1}`);
        point.many = known.length > 40;
      }
      const layers = new Set(own.map((point) => point.layer)).size;
      const caption = make("figcaption", {}, make("strong", {}, roleName(block, role)), ` \u00b7 ${plural(layers, "layer")}`);
      if (domain === null) return [make("figure", {}, caption, nothing(`No value of ${choices.metric}: ${whyText(own[0])}.`))];
      return [make("figure", {}, caption, chart("layers", {
        label: `${choices.metric} of ${block} ${role} along the layers, ${known.length} medians beside the null`,
        height: 190,
        data: { points: known, missing: own.filter((point) => point.why), focus: [] },
        signals: { xDomain: along.domain, yDomain: domain, depthTitle: along.title, isRelative: along.isRelative,
          nullColour: there.length > 1 ? "" : "var(--null)" },
        tip: tipOf(there, choices.metric),
        pick: (point) => {
          const file = there.find((one) => one.index === point.file);
          const group = file.group.get(point.key);
          if (group) choices.show(file.index, group.rows[0]);
        },
        walk: (from, key) => {
          const i = from ? known.indexOf(from) : -1;
          if (key === "Home") return known[0];
          if (key === "End") return known[known.length - 1];
          return known[Math.max(0, Math.min(known.length - 1, i + (key === "ArrowLeft" || key === "ArrowUp" ? -1 : 1)))];
        },
      }))];
    }));
  };
  choices.watch((changes) => { if ("metric" in changes) update(); });
  await update();
};
