// Owns #experts: the routed experts of one layer and role in ascending order of a metric, the null beside them, and those that
// stand out by name. The rule is that of `vindex show --experts` (host/report/text/shown_spectra.hpp).
const { make, select, setOptions, number, count, plural, quantile, nothing, choices, fileLabel, fileColour } = require("tools");
const { chart } = require("chart");
const { prepare, metricOptions } = require("measure");

exports.id = "experts";
exports.kind = "measure";
exports.title = "Experts";
exports.lead = "The routed experts of one layer and role, sorted. An expert stands out where its value is more than 3.5 robust " +
  "standard deviations (1.4826 times the median absolute deviation) from the median of its group.";

const kNamed = 24;

/** {median, scale, experts: [{expert, row, value, z, far}]} ascending by value. */
const ranked = async (file, rows, metric) => {
  const beside = await file.beside(metric);
  const known = rows.filter((row) => file.isMeasured(row) && beside.isKnown(row)).sort((a, b) => beside.values[a] - beside.values[b]);
  const values = known.map((row) => beside.values[row]);
  const median = quantile(values, 0.5);
  const deviations = values.map((value) => Math.abs(value - median)).sort((a, b) => a - b);
  const mad = quantile(deviations, 0.5);
  const mean = deviations.reduce((sum, value) => sum + value, 0) / Math.max(1, deviations.length);
  const scale = mad > 0 ? 1.4826 * mad : 1.2533 * mean;
  const isGroup = known.length >= file.file.fewest_experts;
  const nulls = new Set(known.map(beside.null));
  return {
    file, median, scale, isGroup, without: rows.filter((row) => !known.includes(row)),
    null: nulls.size === 1 ? [...nulls][0] : NaN,
    experts: known.map((row, place) => {
      const value = beside.values[row], z = scale > 0 ? (value - median) / scale : NaN;
      const far = isGroup && Math.abs(z) > file.file.far_z;
      return { file: file.index, row, place: place + 1, expert: file.expert[row], value, z, null: beside.null(row), far };
    }),
  };
};

const sentence = (one, metric) => {
  const { file, experts, without } = one;
  const far = experts.filter((expert) => expert.far).sort((a, b) => Math.abs(b.z) - Math.abs(a.z));
  const why = (row) => (file.isMeasured(row) ? file.text("reason", row) || "not defined" : file.text("status", row));
  const listed = without.slice(0, 8).map((row) => `${file.expert[row]} (${why(row)})`).join(", ");
  const rest = without.length > 8 ? `, ${without.length - 8} more in the table` : "";
  const missing = without.length ? ` ${plural(without.length, "expert")} without a value: ${listed}${rest}.` : "";
  if (experts.length === 0) return `No expert has a value of ${metric}.${missing}`;
  const head = `Median ${number(one.median)}, null ${number(one.null)}. `;
  if (!one.isGroup) return `${head}Fewer than ${file.file.fewest_experts} experts: nobody can be far from the rest.${missing}`;
  if (far.length === 0) {
    const lowest = experts[0].expert, highest = experts[experts.length - 1].expert;
    return `${head}No expert of ${experts.length} stands out; the lowest is ${lowest}, the highest ${highest}.${missing}`;
  }
  const names = far.slice(0, kNamed).map((expert) => `${expert.expert} (${number(expert.value)}, z ${expert.z.toFixed(1)})`).join(", ");
  const more = far.length > kNamed ? `, and ${far.length - kNamed} more in the chart` : "";
  return `${head}${plural(far.length, "expert stands", "experts stand")} out: ${names}${more}.${missing}`;
};

exports.draw = async (body, allFiles) => {
  const files = await prepare(allFiles);
  if (files.length === 0) return body.append(nothing("None of the files is of `vindex measure`."));
  const groupsOf = (file) => [...file.group.values()].filter((group) =>
    group.block === "routed_expert" && group.rows.some((row) => file.expert[row] >= 0));
  const first = files.find((file) => groupsOf(file).length > 0);
  if (first === undefined) return body.append(nothing("These files have no routed experts: nothing to sort."));
  const roleNames = [...new Set(files.flatMap((file) => groupsOf(file).map((group) => group.role)))];
  let role = roleNames.includes("down_proj") ? "down_proj" : roleNames[0];
  const layersOf = () => [...new Set(groupsOf(first).filter((group) => group.role === role).map((group) => group.layer))];
  let layer = layersOf()[0];
  const metric = select("Metric", metricOptions(files), choices.metric, (value) => choices.set({ metric: value }));
  const roleSelect = select("Role", roleNames.map((name, i) => ({ value: i, text: name })), roleNames.indexOf(role), (value) => {
    role = roleNames[Number(value)];
    update();
  });
  const layerSelect = select(files.length > 1 ? `Layer of ${first.label}` : "Layer", [], layer, (value) => { layer = Number(value); update(); });
  const view = make("div", {});
  body.append(make("div", { class: "controls" }, metric.element, roleSelect.element, layerSelect.element),
    make("ul", { class: "legend" }, make("li", {}, make("i", { class: "line dashed", mark: "var(--null)" }), "null (noise)"),
      make("li", {}, make("i", { class: "line", mark: "var(--soft)" }), "median"),
      make("li", {}, make("i", { class: "band", mark: "var(--soft)" }), "within 3.5 robust standard deviations"),
      make("li", {}, make("i", { class: "single", mark: "var(--outlier)" }), "stands out")), view);
  const update = async () => {
    metric.select.value = choices.metric;
    if (!layersOf().includes(layer)) layer = layersOf()[0];
    setOptions(layerSelect.select, layersOf().map((value) => ({ value, text: value })), layer);
    const found = await Promise.all(files.map(async (file) => {
      const wanted = file === first ? layer : Math.round(layer / Math.max(1, first.lastLayer) * file.lastLayer);
      const group = groupsOf(file).find((one) => one.role === role && one.layer === wanted);
      return { file, wanted, group: group ?? null, ranked: group ? await ranked(file, group.rows, choices.metric) : null };
    }));
    const values = found.flatMap(({ ranked: one }) => (one ? [...one.experts.map((expert) => expert.value), one.null] : [])).filter(Number.isFinite);
    const low = Math.min(...values), high = Math.max(...values), air = (high - low || Math.abs(high) || 1) * 0.08;
    view.replaceChildren(...found.map(({ file, wanted, group, ranked: one }) => {
      const head = make("figcaption", {}, fileLabel(file, files), files.length > 1 ? ": " : "", `layer ${wanted}, ${role}, ${choices.metric}`);
      if (group === null) return make("figure", {}, head, nothing(`${file.label} has no routed experts of that role at that depth.`));
      if (one.experts.length === 0) return make("figure", {}, head, nothing(sentence(one, choices.metric)));
      const labelled = new Set(one.experts.filter((expert) => expert.far).sort((a, b) => Math.abs(b.z) - Math.abs(a.z)).slice(0, 12));
      return make("figure", {}, head, make("p", {}, sentence(one, choices.metric)), chart("experts", {
        label: `${choices.metric} of ${one.experts.length} experts of layer ${wanted}, ${role}, in ascending order`, height: 260,
        data: { experts: one.experts.map((expert) => ({ ...expert, label: labelled.has(expert) ? String(expert.expert) : "" })), focus: [] },
        signals: { yDomain: [low - air, high + air], colour: fileColour(file.index), median: one.median,
          nullValue: Number.isFinite(one.null) ? one.null : null,
          reach: one.isGroup && one.scale > 0 ? file.file.far_z * one.scale : null, most: one.experts.length },
        tip: (expert) => ({ title: `expert ${expert.expert}, ${file.title(expert.row)}`, rows: [[choices.metric, number(expert.value)],
          ["null (noise)", number(expert.null)], ["ratio to null", number(expert.value / expert.null)],
          ["robust z", Number.isFinite(expert.z) ? expert.z.toFixed(2) : "none: all are equal"],
          ["place", `${expert.place} of ${count(one.experts.length)}`]] }),
        pick: (expert) => { if (expert.row !== undefined) choices.show(file.index, expert.row); },
        walk: (from, key) => {
          const i = from ? one.experts.findIndex((expert) => expert.row === from.row) : -1;
          const to = key === "Home" ? 0 : key === "End" ? one.experts.length - 1 : i + (key === "ArrowLeft" || key === "ArrowDown" ? -1 : 1);
          return one.experts[Math.max(0, Math.min(one.experts.length - 1, to))];
        },
      }));
    }));
  };
  choices.watch((changes) => { if ("metric" in changes) update(); });
  await update();
};
