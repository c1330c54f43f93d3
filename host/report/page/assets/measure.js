// Owns a file of `vindex measure` as sections see it: rows, metrics beside their nulls, and the (layer, block, role) groups
// with their medians and quartiles.
const data = require("data");
const { quantile, short } = require("tools");

const prepared = new Map();
/** The files of `vindex measure` among `files`, ready to be asked; made once. */
exports.prepare = (files) => Promise.all(files.filter((file) => file.kind === "measure").map((file) => {
  if (!prepared.has(file.index)) prepared.set(file.index, new Measured(file).read());
  return prepared.get(file.index);
}));

/** k of "var_at_64"; else NaN. */
const kOf = (metric) => Number(/^var_at_(\d+)(_lower|_upper)?$/.exec(metric)?.[1] ?? NaN);

class Measured {
  constructor(file) {
    Object.assign(this, { file, index: file.index, label: file.label, values: new Map(), groupsOf: new Map() });
  }

  async read() {
    const rows = this.file.rows;
    [this.layer, this.expert, this.slice, this.shape, this.escalated, this.held] = await Promise.all(
      ["layer", "expert", "slice", "shape", "escalated", "held"].map((name) => data.numbers(rows[name])));
    for (const name of ["block", "role", "encoding", "status", "reason", "method"]) {
      this[name] = await data.texts(rows[name]);
    }
    this.name = await data.names(rows.tensor, this.layer, this.expert);
    this.count = this.layer.length;
    this.shapes = this.file.shapes;
    this.metrics = new Map(this.file.metrics.map((metric) => [metric.name, metric]));
    this.nulls = new Map();
    for (const [name, values] of Object.entries(this.file.nulls)) this.nulls.set(name, await data.numbers(values));
    this.group = this.grouped();
    this.lastLayer = this.layer.reduce((most, layer) => Math.max(most, layer), 0);
    return this;
  }

  text(column, row) { return this[column].texts[this[column].at[row]]; }
  /** "NAME", or "NAME [slice]". */
  title(row) { return this.slice[row] < 0 ? this.name(row) : `${this.name(row)} [${this.slice[row]}]`; }
  shapeText(row) { return this.shapes[this.shape[row]].join(" \u00d7 "); }
  isMeasured(row) { return this.text("status", row) === "measured"; }
  hasNull(metric) { return this.nulls.has(metric) || this.metrics.has(`${metric}_null`); }

  /** Values of a metric by row; all NaN where the file has no such metric. */
  async metric(name) {
    if (!this.values.has(name)) {
      const found = this.metrics.get(name);
      this.values.set(name, found === undefined ? new Float64Array(this.count).fill(NaN)
        : await (found.whole ? data.integers : data.numbers)(found.values));
    }
    return this.values.get(name);
  }

  /** {values, nulls, isKnown(row)} of a metric. A share of the first k of at most k values is 1 whatever the weights: not known. */
  async beside(name) {
    const values = await this.metric(name);
    const ofShape = this.nulls.get(name);
    const ofRow = ofShape === undefined && this.metrics.has(`${name}_null`) ? await this.metric(`${name}_null`) : null;
    const k = kOf(name);
    const isWhole = this.shapes.map(([rows, cols]) => k >= Math.min(rows, cols));
    return {
      values,
      whole: this.metrics.get(name)?.whole ?? false,
      null: (row) => (ofShape ? ofShape[this.shape[row]] : ofRow ? ofRow[row] : NaN),
      isForced: (row) => isWhole[this.shape[row]],
      isKnown: (row) => !isWhole[this.shape[row]] && Number.isFinite(values[row]),
    };
  }

  /** Rows of every (layer, block, role), in the file's order. */
  grouped() {
    const groups = new Map();
    for (let row = 0; row < this.count; ++row) {
      const block = this.text("block", row), role = this.text("role", row), layer = this.layer[row];
      const key = `${layer}\u0000${block}\u0000${role}`;
      if (!groups.has(key)) groups.set(key, { key, layer, block, role, rows: [] });
      groups.get(key).rows.push(row);
    }
    return groups;
  }

  /** Every group with the spread of `metric` over its rows that count: median, q25, q75, null, ratio, and why there is none. */
  async groups(metric) {
    if (!this.groupsOf.has(metric)) this.groupsOf.set(metric, this.spread(await this.beside(metric)));
    return this.groupsOf.get(metric);
  }

  spread(beside) {
    return [...this.group.values()].map((group) => {
      const rows = group.rows.filter((row) => this.held[row] === 1);
      const known = rows.filter((row) => this.isMeasured(row) && beside.isKnown(row));
      const sorted = Float64Array.from(known, (row) => beside.values[row]).sort();
      const ratios = Float64Array.from(known, (row) => beside.values[row] / beside.null(row)).filter(Number.isFinite).sort();
      const nulls = new Set(known.map(beside.null));
      const statuses = {};
      for (const row of group.rows) {
        const status = this.text("status", row);
        statuses[status] = (statuses[status] ?? 0) + 1;
      }
      return {
        ...group, file: this.index, values: sorted.length, statuses,
        median: quantile(sorted, 0.5), q25: quantile(sorted, 0.25), q75: quantile(sorted, 0.75),
        least: sorted[0] ?? NaN, most: sorted[sorted.length - 1] ?? NaN,
        null: nulls.size === 1 ? [...nulls][0] : NaN, nullsDiffer: nulls.size > 1, ratio: quantile(ratios, 0.5),
        why: sorted.length > 0 ? "" : this.whyNone(rows.length ? rows : group.rows, beside),
      };
    });
  }

  /** Why no row of `rows` has a value: "failed", "skipped", "forced" or "undefined", the gravest first. */
  whyNone(rows, beside) {
    const statuses = new Set(rows.map((row) => this.text("status", row)));
    for (const status of ["failed", "not_converged", "unsupported", "not_finite"]) if (statuses.has(status)) return "failed";
    if (statuses.has("skipped")) return "skipped";
    return rows.some(beside.isForced) ? "forced" : "undefined";
  }
}

/** In words, for a group without a value. */
exports.whyText = (group) => ({
  failed: "not measured: " + Object.entries(group.statuses).map(([name, count]) => `${count} ${name}`).join(", "),
  skipped: "not measured yet",
  forced: "1 whatever the weights: k is not below the smaller dimension",
  undefined: "not defined (NaN)",
})[group.why] ?? "";

/** Positions along the layers: layer numbers of one file, relative depth (layer / last layer) of several. */
exports.depth = (files) => {
  const isRelative = files.length > 1;
  const last = (file) => Math.max(1, file.lastLayer);
  const position = (file, layer) => (isRelative ? layer / last(file) : layer);
  const half = (file) => (isRelative ? 0.5 / last(file) : 0.5);
  return {
    isRelative, position, half,
    title: isRelative ? "relative depth" : "layer",
    domain: [-Math.max(...files.map(half)), Math.max(...files.map((file) => position(file, file.lastLayer) + half(file)))],
  };
};

/** "routed_expert gate_proj": what a role is called where blocks share it. */
exports.roleName = (block, role) => short(block === role || block === "other" ? role : `${block} ${role}`, 60);

/** (block, role) pairs of all files in the order of the first file that has them. */
exports.roles = (files) => {
  const orders = new Map();
  const blocks = [];
  for (const file of files) {
    for (const { block, role } of file.group.values()) {
      if (!orders.has(block)) {
        orders.set(block, new Map());
        blocks.push(block);
      }
      orders.get(block).set(role, { block, role });
    }
  }
  const order = ["embedding", "router", "attention", "dense_mlp", "routed_expert", "shared_expert", "ssm", "norm", "output", "other"];
  blocks.sort((a, b) => order.indexOf(a) - order.indexOf(b));
  return blocks.flatMap((block) => [...orders.get(block).values()]);
};

/** Options of a select of metrics: those with a null first. */
exports.metricOptions = (files) => {
  const names = new Map();
  for (const file of files) {
    for (const metric of file.metrics.values()) {
      if (!metric.name.endsWith("_null")) names.set(metric.name, names.get(metric.name) || file.hasNull(metric.name));
    }
  }
  return [...names].map(([value, hasNull]) => ({
    value, text: value, group: hasNull ? "beside the null of noise" : "without a null",
  })).sort((a, b) => (a.group < b.group ? -1 : a.group > b.group ? 1 : 0));
};
