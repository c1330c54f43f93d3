// Owns #spectrum: the singular values of a chosen matrix of each file, by rank and as a density of l = s^2, on the law of noise
// of that shape and scale.
const { make, short, select, setOptions, number, count, plural, nothing, choices, fileLabel, fileColour } = require("tools");
const { chart } = require("chart");
const { prepare, roles, roleName } = require("measure");
const spectra = require("spectra");

exports.id = "spectrum";
exports.kind = "measure";
exports.title = "Spectrum";
exports.lead = "Singular values of one matrix. The line is the Marchenko-Pastur law: what independent noise of the same shape " +
  "and of the scale of this matrix's bulk gives. Values beyond its upper edge are outliers: structure that noise does not have.";

const kBars = 48;

/** Bars of equal width over [low, high] of the density of `values` (descending) at `ranks` of `length`: counts where every value is
 *  there, else the count as it rises evenly between the values that are. */
const bars = (ranks, values, length, low, high) => {
  const width = (high - low) / kBars, counts = new Float64Array(kBars);
  const place = (value) => Math.min(kBars - 1, Math.floor((value - low) / width));
  if (ranks.length === length) {
    for (const value of values) if (value >= low && value <= high) counts[place(value)] += 1;
  } else {
    // Values above x, by linear interpolation between (value, rank - 1/2).
    const above = (x) => {
      if (x >= values[0]) return 0;
      const last = values.length - 1;
      if (x <= values[last]) return length;
      let a = 0, b = last;
      while (b - a > 1) {
        const middle = (a + b) >> 1;
        if (values[middle] > x) a = middle; else b = middle;
      }
      const share = (values[a] - x) / (values[a] - values[b] || 1);
      return ranks[a] - 0.5 + share * (ranks[b] - ranks[a]);
    };
    for (let i = 0; i < kBars; ++i) counts[i] = above(low + i * width) - above(low + (i + 1) * width);
  }
  return Array.from(counts, (n, i) => ({ x0: low + i * width, x1: low + (i + 1) * width, n, density: n / length / width }));
};

/** What the charts of one matrix show, or {why}. */
const picture = async (file, row) => {
  const metric = async (name) => (await file.metric(name))[row];
  const title = file.title(row);
  if (!file.isMeasured(row)) return { file, row, title, why: `${file.text("status", row)}: ${file.text("reason", row)}` };
  const all = await spectra.of(file.index);
  const spectrum = all.at(row);
  if (spectrum === null) return { file, row, title, why: "the file holds no singular values of it (measure --no-spectra)" };
  const law = all.laws[file.shape[row]];
  const [rows, cols] = file.shapes[file.shape[row]], n = Math.max(rows, cols), p = Math.min(rows, cols);
  const ofBulk = await metric("mp_scale"), isBulk = ofBulk > 0;
  // Without all values the bulk's scale is not known; the root mean square of the weights takes its place.
  const scale = isBulk ? ofBulk : await metric("frobenius_norm") / Math.sqrt(rows * cols);
  const unit = n * scale * scale;  // of l
  const hasLaw = law !== null && unit > 0;
  const edge = hasLaw && isBulk ? law.edge * unit : NaN;
  const points = spectrum.ranks.map((rank, i) => ({ rank, sigma: spectrum.sigma[i], l: spectrum.sigma[i] ** 2 }))
    .map((point) => ({ ...point, x: point.l / unit, outlier: point.l > edge }));
  return {
    file, row, title, law: hasLaw ? law : null, isBulk, unit, scale, n, p, points, length: spectrum.length, rounding: 0.5 / all.steps,
    positive: points.filter((point) => point.sigma > 0),
    curve: hasLaw ? law.ranks.map((rank, i) => ({ rank, sigma: law.sigma[i] * Math.sqrt(unit) })).filter((point) => point.sigma > 0) : [],
    outliers: await metric("mp_outliers"), ks: await metric("mp_ks"), error: await metric("sigma_error"),
    alpha: await metric("stable_rank"), why: "",
  };
};

const union = (lists) => {
  const values = lists.flat().filter((value) => Number.isFinite(value) && value > 0);
  return [Math.min(...values), Math.max(...values)];
};

const facts = (one) => {
  const { file, row } = one;
  const parts = [`${file.shapeText(row)}, ${file.text("encoding", row)}`, `s_1 ${number(one.points[0].sigma)}`];
  if (one.law && one.isBulk) parts.push(`noise scale ${number(one.scale)}`, `distance from the law (mp_ks) ${number(one.ks)}`);
  parts.push(one.points.length < one.length
    ? `${count(one.points.length)} of ${count(one.length)} values drawn, chosen by rank` : `all ${count(one.length)} values drawn`);
  if (one.length < one.p) parts.push(`the file holds the largest ${count(one.length)} of ${count(one.p)}`);
  if (one.rounding > 5e-4) parts.push("drawn to three digits");
  const zeros = one.points.length - one.positive.length;
  if (zeros > 0) parts.push(`${plural(zeros, "zero")} left out of the logarithmic chart`);
  return parts.join(" \u00b7 ");
};

const outlierText = (one) => {
  if (!one.law) return "No scale is known of this matrix, so the law is not drawn and no value is called an outlier.";
  if (!one.isBulk) {
    return "The bulk's scale is not known (mp_scale is NaN): the law is drawn at the scale of all weights, " +
      `root mean square ${number(one.scale)}, and no value is called an outlier.`;
  }
  const drawn = one.points.filter((point) => point.outlier);
  if (one.outliers === 0) return "No value lies beyond the edge of the law (null: about 0.01).";
  const cut = drawn.slice(0, 12).map((point) => number(point.sigma)).join(", ");
  return `${plural(one.outliers, "outlier")} beyond the edge (null: about 0.01)` +
    (drawn.length ? `; s of ${drawn.length < one.outliers ? "those drawn" : "the largest"}: ${cut}` : "") +
    (drawn.length < one.outliers ? ` (${count(drawn.length)} of ${count(one.outliers)} are drawn)`
      : drawn.length > 12 ? ` (12 of ${count(drawn.length)} listed)` : "") + ".";
};

const tip = (one) => (point) => ({
  title: `${one.title}${point.rank ? `, rank ${point.rank}` : ""}`,
  rows: [["s", number(point.sigma)], ["l = s\u00b2", number(point.l)],
    ["null (noise) at this rank", one.law ? number(lawAt(one, point.rank)) : "not known"],
    ["", point.outlier ? "outlier: beyond the edge of noise" : one.isBulk ? "within what noise gives" : ""]].filter(([, text]) => text),
});
const lawAt = (one, rank) => one.curve.find((point) => point.rank === rank)?.sigma ?? NaN;

const walker = (points) => (from, key) => {
  const i = from ? points.indexOf(from) : -1;
  if (key === "Home") return points[0];
  if (key === "End") return points[points.length - 1];
  return points[Math.max(0, Math.min(points.length - 1, i + (key === "ArrowLeft" || key === "ArrowUp" ? -1 : 1)))];
};

const charts = (pictures, files) => {
  const good = pictures.filter((one) => one.why === "");
  const xRank = union(good.map((one) => [1, one.length, ...one.curve.map((point) => point.rank)]));
  const ySigma = union(good.map((one) => [...one.positive, ...one.curve].map((point) => point.sigma)));
  const withLaw = good.filter((one) => one.law);
  const span = withLaw.length === 0 ? 1 : Math.max(...withLaw.map((one) =>
    Math.max(one.law.upper * 1.25, Math.min(one.points[0].x * 1.02, one.law.upper * 2.5))));
  const histogram = ({ points, length }) =>
    bars(points.map((point) => point.rank), points.map((point) => point.x), length, 0, span);
  const histograms = new Map(withLaw.map((one) => [one, histogram(one)]));
  const laws = withLaw.map((one) => one.law.density.filter((unused, i) => one.law.x[i] > 0.02));
  const most = Math.max(...[...histograms.values()].flat().map((bar) => bar.density), 0.01);
  const top = 1.08 * Math.min(Math.max(most, ...laws.flat()), 3 * Math.max(0.4, ...laws.map((law) => law[Math.floor(law.length / 4)])));
  return pictures.map((one) => {
    const head = [fileLabel(one.file, files), files.length > 1 ? ": " : "", make("span", { class: "name", title: one.title }, short(one.title))];
    if (one.why) return make("figure", {}, make("figcaption", {}, head), nothing(`No spectrum: ${one.why}.`));
    const colour = fileColour(one.file.index);
    const isWhole = one.length === one.p;
    const outside = one.points.filter((point) => point.x > span).length;
    const rank = make("figure", {}, make("figcaption", {}, "Singular values by rank, both axes logarithmic"),
      chart("spectrum_rank", {
        label: `Singular values of ${one.title} by rank beside the law of noise; ${one.positive.length} points`, height: 300,
        data: { points: one.positive, law: one.curve, focus: [] }, signals: { xDomain: xRank, yDomain: ySigma, colour },
        tip: tip(one), walk: walker(one.positive),
      }));
    const density = !one.law || !isWhole
      ? make("figure", {}, make("figcaption", {}, "Density of l = s\u00b2"),
        nothing(isWhole ? "Not drawn: there is no noise scale to compare with." : "Not drawn: the file holds the largest values only (mode fast)."))
      : make("figure", {}, make("figcaption", {}, "Density of l = s\u00b2 in units of n times the squared noise scale",
        outside > 0 ? `; ${plural(outside, "drawn value")} beyond the right end` : ""),
      chart("spectrum_density", {
        label: `Density of squared singular values of ${one.title} beside the Marchenko-Pastur law`, height: 300,
        data: { bars: histograms.get(one), law: one.law.x.map((x, i) => ({ x, density: one.law.density[i] })),
          outliers: one.points.filter((point) => point.outlier && point.x <= span) },
        signals: { xDomain: [0, span], yDomain: [0, top], edge: one.isBulk ? one.law.edge : 1e9, colour },
        tip: (datum) => (datum.x0 === undefined ? tip(one)(datum) : {
          title: `l from ${number(datum.x0)} to ${number(datum.x1)}`,
          rows: [["density", number(datum.density)], ["null (noise)", number(densityAt(one.law, (datum.x0 + datum.x1) / 2))],
            ["values", isWhole && one.points.length === one.length ? count(datum.n) : `about ${number(datum.n)}`]],
        }),
      }));
    return make("div", {}, make("p", {}, head), make("p", { class: "lead" }, facts(one)), make("p", {}, outlierText(one)),
      make("div", { class: "pair" }, rank, density));
  });
};

const densityAt = (law, x) => {
  const g = (Math.sqrt(law.upper) - 1) ** 2;
  return x <= law.lower || x >= law.upper ? 0 : Math.sqrt((x - law.lower) * (law.upper - x)) / (2 * Math.PI * g * x);
};

/** The row of `file` that corresponds to `row` of `from`: same block, role and expert, in the layer at the same relative depth. */
const matching = (file, from, row) => {
  const block = from.text("block", row), role = from.text("role", row);
  const layer = from.layer[row] < 0 ? -1 : Math.round(from.layer[row] / Math.max(1, from.lastLayer) * file.lastLayer);
  const group = [...file.group.values()].find((one) => one.block === block && one.role === role && one.layer === layer);
  return group?.rows.find((other) => file.expert[other] === from.expert[row] && file.slice[other] === from.slice[row]) ??
    group?.rows.find((other) => file.expert[other] === from.expert[row]) ?? null;
};

/** The measured matrix farthest above its null. */
const farthest = async (file) => {
  const beside = await file.beside("var_at_64");
  let best = null, most = -Infinity;
  for (let row = 0; row < file.count; ++row) {
    const ratio = beside.isKnown(row) && file.isMeasured(row) ? beside.values[row] / beside.null(row) : NaN;
    if (ratio > most) [best, most] = [row, ratio];
  }
  return best ?? 0;
};

exports.draw = async (body, allFiles) => {
  const files = await prepare(allFiles);
  if (files.length === 0) return body.append(nothing("None of the files is of `vindex measure`."));
  const first = files.find((file) => file.count > 0);
  if (first === undefined) return body.append(nothing("The run selected no matrix."));
  const chosenFile = () => files.find((file) => file.index === choices.matrix.file);
  if (choices.matrix === null) choices.matrix = { file: first.index, row: await farthest(first) };
  const pick = (row) => choices.set({ matrix: { file: chosenFile().index, row } });
  const rowsOf = (test) => [...chosenFile().group.values()].filter(test);
  const nearest = (groups) => {
    const file = chosenFile(), row = choices.matrix.row;
    const group = groups.find((one) => one.layer === file.layer[row]) ?? groups[0];
    return group.rows.find((other) => file.expert[other] === file.expert[row]) ?? group.rows[0];
  };
  // Options are numbers in the list of roles: names may hold anything.
  const role = select("Block and role", [], "", (value) => {
    const wanted = roles([chosenFile()])[Number(value)];
    pick(nearest(rowsOf((group) => group.block === wanted.block && group.role === wanted.role)));
  });
  const layer = select("Layer", [], "", (value) => {
    const file = chosenFile(), row = choices.matrix.row;
    pick(nearest(rowsOf((group) => group.layer === Number(value) &&
      group.block === file.text("block", row) && group.role === file.text("role", row))));
  });
  const member = select("Matrix", [], "", (value) => pick(Number(value)));
  const view = make("div", {});
  body.append(make("div", { class: "controls" }, role.element, layer.element, member.element), view);
  const update = async () => {
    const file = chosenFile(), { row } = choices.matrix;
    const block = file.text("block", row), name = file.text("role", row);
    const known = roles([file]);
    setOptions(role.select, known.map((one, i) => ({ value: i, text: roleName(one.block, one.role) })),
      known.findIndex((one) => one.block === block && one.role === name));
    const groups = rowsOf((group) => group.block === block && group.role === name);
    setOptions(layer.select, groups.map((group) => ({ value: group.layer, text: group.layer < 0 ? "none" : `${group.layer}` })), file.layer[row]);
    const own = groups.find((group) => group.layer === file.layer[row]);
    const memberText = (other) => (file.expert[other] >= 0 ? `expert ${file.expert[other]}`
      : file.slice[other] >= 0 ? `slice ${file.slice[other]}` : "the only one");
    setOptions(member.select, own.rows.map((other) => ({ value: other, text: memberText(other) })), row);
    member.select.disabled = own.rows.length < 2;
    const pictures = (await Promise.all(files.map(async (other) => {
      const found = other === file ? row : matching(other, file, row);
      return found !== null ? picture(other, found)
        : { file: other, title: "no matrix", why: `no matrix of block ${block} and role ${name} at that depth` };
    })));
    view.replaceChildren(make("ul", { class: "legend" },
      make("li", {}, make("i", { class: "single", mark: fileColour(file.index) }), "singular values"),
      make("li", {}, make("i", { class: "line", mark: "var(--ink)" }), "null: law of noise"),
      make("li", {}, make("i", { class: "single", mark: "var(--outlier)" }), "outliers")), ...charts(pictures, files));
  };
  choices.watch((changes) => { if ("matrix" in changes) update(); });
  await update();
};
