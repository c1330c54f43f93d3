// Owns files of compare, experts, cka and routing as sections see them: columns and arrays by name, read when they are first
// asked for; statistics of groups of rows.
const data = require("data");
const { number, quantile } = require("tools");

exports.isNumber = (value) => typeof value === "number" && !Number.isNaN(value);
const { isNumber } = exports;

const prepared = new Map();
/** The files of kind `kind` among `files`, ready to be asked; made once. */
exports.prepare = (files, kind) => Promise.all(files.filter((file) => file.kind === kind).map((file) => {
  if (!prepared.has(file.index)) prepared.set(file.index, new Cells(file).read());
  return prepared.get(file.index);
}));

class Cells {
  constructor(file) {
    Object.assign(this, { file, index: file.index, label: file.label, count: file.count, scales: file.scales, attributes: file.attributes,
      tables: file.tables, held: new Set(file.squares_held), heldOf: file.squares_of, columns: new Map(), lists: new Map(), squares: new Map() });
  }

  async read() {
    for (const [name, column] of Object.entries(this.file.columns)) if (!column.names) this.columns.set(name, await this.unpacked(column));
    for (const [name, column] of Object.entries(this.file.columns)) {
      if (!column.names) continue;
      const at = await data.names(column.names, this.columns.get("layer"), this.columns.get("expert") ?? []);
      this.columns.set(name, Array.from({ length: this.count }, (unused, row) => at(row)));
    }
    for (const [name, list] of Object.entries(this.file.lists)) this.lists.set(name, { width: list.width, values: await data.numbers(list.values) });
    return this;
  }

  async unpacked(column) {
    if (!column.texts) return (column.whole ? data.integers : data.numbers)(column.values);
    const { texts, at } = await data.texts(column.texts);
    return Array.from(at, (place) => texts[place]);
  }

  has(name) { return this.columns.has(name); }
  /** Numbers or texts of a column by row. Of a column that the file has not: nothing. */
  column(name) { return this.columns.get(name); }
  /** The number of a row; NaN where there is none. */
  at(name, row) {
    const values = this.columns.get(name);
    return values === undefined ? NaN : values[row];
  }
  /** The array of a row along one scale. */
  list(name, row) {
    const found = this.lists.get(name);
    return found === undefined ? null : found.values.subarray(row * found.width, (row + 1) * found.width);
  }
  /** A function (i, j) of the square array of a row, or null where the page does not hold it. */
  async square(name, row) {
    if (!this.squares.has(row)) this.squares.set(row, data.block(this.index, `row-${row}`));
    const found = this.squares.get(row)?.[name];
    if (!found) return null;
    found.read ??= await data.numbers(found.values);
    const values = found.read, side = this.scales.expert.length;
    if (!found.triangle) return (i, j) => values[i * side + j];
    // Row i of the triangle begins behind side + (side - 1) + ... values.
    return (i, j) => (i <= j ? values[i * side - (i * (i - 1)) / 2 + j - i] : values[j * side - (j * (j - 1)) / 2 + i - j]);
  }
}

/** "0.5 \u00b1 0.01", or the value alone where no deviation is known. */
exports.nullText = (value, deviation) =>
  (isNumber(value) ? number(value) + (isNumber(deviation) ? ` \u00b1 ${number(deviation)}` : "") : "not defined");

/** Median, quartiles and extremes of the values that there are. */
exports.spread = (values) => {
  const sorted = Float64Array.from(values.filter(isNumber)).sort();
  return { count: sorted.length, median: quantile(sorted, 0.5), low: quantile(sorted, 0.25), high: quantile(sorted, 0.75),
    least: sorted[0] ?? NaN, most: sorted[sorted.length - 1] ?? NaN };
};

/** The value that all have which have one, else NaN. */
exports.common = (values) => {
  const known = values.filter(isNumber);
  return known.every((value) => Math.abs(value - known[0]) <= 1e-6 * Math.abs(known[0])) ? known[0] ?? NaN : NaN;
};
