// Owns #trust: what each file promises, what computed it, what its checks say, and every row that was escalated or not measured.
const { make, short, number, count, plural, fileLabel } = require("tools");
const { prepare } = require("measure");

exports.id = "trust";
exports.kind = null;
exports.title = "Trust";
exports.lead = "What the numbers above are worth: the accuracy that the mode promises, the machine that computed them, the two " +
  "checks of every spectrum, and the rows that took a second route or have no numbers.";

const kListed = 100;

/** The promises of docs/measuring/metrics.md, in short. */
const promises = {
  fast: "var_at_k for k up to 64 and stable_rank to 1e-5, each with bounds stored; nothing of the tail",
  default: "condition up to 100: |s_i - ref| \u2264 (2e-6 + 1e-6 s_1/s_i) s_1 and var_at_k to 1e-5; above: |s_i - ref| \u2264 4e-6 s_1",
  strict: "|s_i - ref| \u2264 50 p 2^-52 s_1 for every singular value",
};

const parsed = (text) => {
  try {
    return text === null ? null : JSON.parse(text);
  } catch {
    return null;
  }
};
exports.parsed = parsed;

/** "cpu: AMD EPYC (OpenBLAS 0.3.21)", and whether a GPU had a part. */
const machine = (file) => {
  const ends = parsed(file.run.environment)?.back_ends ?? [];
  const libraries = (end) => (end.libraries?.length ? ` (${end.libraries.join(", ")})` : "");
  const lines = ends.map((end) => `${end.backend}: ${end.device ?? "device not named"}${libraries(end)}`);
  if (lines.length === 0 && file.backend) lines.push(file.backend);
  const used = `${file.backend ?? ""} ${ends.map((end) => end.backend).join(" ")}`;
  if (lines.length > 0 && !used.includes("cuda")) lines.push("No GPU was used.");
  return lines.length ? lines : ["not recorded"];
};

const facts = (pairs) => make("dl", { class: "facts" }, pairs.flatMap(([name, ...values]) =>
  [make("dt", {}, name), ...[make("dd", {}, values.flat().map((value) => (value instanceof Node ? value : make("div", {}, value))))]]));
exports.facts = facts;

const placeOf = (file, row) =>
  make("div", {}, "at ", make("span", { class: "name", title: file.title(row) }, short(file.title(row))));

const checkOf = async (file, name) => {
  const values = await file.metric(name);
  let most = -Infinity, where = null, known = 0, alarms = 0;
  for (let row = 0; row < file.count; ++row) {
    // How much a check may miss depends on the errors of all values: the row says where it did.
    alarms += file.text("reason", row).includes(`${name} refutes`) ? 1 : 0;
    if (Number.isNaN(values[row])) continue;
    ++known;
    if (values[row] > most) [most, where] = [values[row], row];
  }
  if (known === 0) return ["no row has this check"];
  return [`largest of ${count(known)}: ${number(most)}`,
    make("div", { class: alarms ? "alarm" : "" },
      alarms ? `${plural(alarms, "row")} where it refutes the error stated` : "no alarm"),
    placeOf(file, where)];
};

const list = (file, title, rows, explain) => {
  if (rows.length === 0) return make("p", {}, `${title}: none.`);
  const shown = rows.slice(0, kListed);
  return make("div", {}, make("h3", {}, `${title}: ${count(rows.length)}`), make("div", { class: "scroll" }, make("table", {},
    make("thead", {}, make("tr", {}, ["matrix", "shape", "status", "method", "why"].map((name) => make("th", {}, name)))),
    make("tbody", {}, shown.map((row) => make("tr", {}, make("td", { class: "name", title: file.title(row) }, short(file.title(row))),
      [file.shapeText(row), file.text("status", row), file.text("method", row) || "-", file.text("reason", row) || explain]
        .map((text) => make("td", {}, text))))))),
  rows.length > kListed ? make("p", {}, `${kListed} of ${count(rows.length)} listed; the table above has all of them.`) : null);
};

const measured = async (file) => {
  const rows = Array.from({ length: file.count }, (unused, row) => row);
  const of = (...names) => rows.filter((row) => names.includes(file.text("status", row)));
  const errors = await file.metric("sigma_error"), norms = await file.metric("spectral_norm");
  let most = -Infinity, where = null;
  for (const row of rows) {
    const relative = errors[row] / norms[row];
    if (relative > most) [most, where] = [relative, row];
  }
  const { counts } = file.file;
  const undefinedRows = rows.filter((row) => file.isMeasured(row) && file.text("reason", row) !== "");
  return [
    facts([
      ["Rows", `${count(counts.measured)} of ${count(counts.total)} measured`,
        ["not_converged", "not_finite", "unsupported", "failed", "skipped"].filter((name) => counts[name] > 0)
          .map((name) => `${count(counts[name])} ${name}`)],
      ["Mode", `${file.file.mode}: ${promises[file.file.mode] ?? "a mode that this program does not know"}`],
      ["Largest error", where === null ? "not known" : [`sigma_error / s_1 ${number(most)}`, placeOf(file, where)]],
      ["Computed by", machine(file.file)],
      ["check_trace", ...await checkOf(file, "check_trace")],
      ["check_gram", ...await checkOf(file, "check_gram")],
    ]),
    list(file, "Escalated rows", rows.filter((row) => file.escalated[row] === 1), "a stricter route took over"),
    list(file, "Failed, not converged and unsupported rows", of("failed", "not_converged", "unsupported"), "-"),
    list(file, "Rows with weights that are not finite", of("not_finite"), "-"),
    list(file, "Measured rows with undefined values", undefinedRows, "-"),
  ];
};

exports.draw = async (body, files) => {
  const ready = await prepare(files);
  for (const file of files) {
    const own = ready.find((one) => one.index === file.index);
    const parts = own ? await measured(own) : [facts([["Status", file.status], ["Mode", file.mode || "none"], ["Computed by", machine(file)]])];
    body.append(make("article", { "data-file": file.index }, make("h3", {}, files.length > 1 ? fileLabel(file, files) : file.label), parts));
  }
};
