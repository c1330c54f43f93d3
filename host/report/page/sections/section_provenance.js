// Owns #provenance: how each file came to be: command, inputs with their digests, versions, settings.
const { make, count, fileLabel, nothing } = require("tools");
const { facts, parsed } = require("section_trust");

exports.id = "provenance";
exports.kind = null;
exports.title = "Provenance";
exports.lead = "The command that wrote each file, the bytes it read, and the versions of what computed it.";

const kListed = 200;

const inputs = (file) => {
  const all = parsed(file.run.inputs);
  if (!Array.isArray(all) || all.length === 0) return nothing("The file names no inputs.");
  const digest = (input) => {
    const found = Object.entries(input).filter(([name]) => /sha256|etag|digest/i.test(name));
    return found.length ? found.map(([name, value]) => `${name} ${value}`).join("\n") : "none recorded";
  };
  return make("div", {}, make("div", { class: "scroll" }, make("table", {},
    make("thead", {}, make("tr", {}, ["input", "bytes", "digest", "version"].map((name) => make("th", {}, name)))),
    make("tbody", {}, all.slice(0, kListed).map((input) => make("tr", {}, make("td", { class: "name" }, String(input.path ?? input.uri ?? "")),
      make("td", { class: "number" }, Number.isFinite(input.bytes) ? count(input.bytes) : "-"), make("td", { class: "name" }, digest(input)),
      make("td", { class: "name" }, String(input.version ?? input.revision ?? "-"))))))),
  all.length > kListed ? make("p", {}, `${kListed} of ${count(all.length)} inputs listed.`) : null);
};

const versions = (file) => {
  const environment = parsed(file.run.environment) ?? {};
  const commit = environment.commit ? ` (${environment.commit})` : "";
  const program = `${environment.program ?? "vindex"} ${environment.version ?? "of a version not recorded"}${commit}`;
  return [program, ...(environment.compiler ? [environment.compiler] : []), ...(environment.back_ends ?? []).flatMap((end) => end.libraries ?? [])];
};

exports.draw = (body, files) => {
  for (const file of files) {
    const command = parsed(file.run.command);
    body.append(make("article", { "data-file": file.index }, make("h3", {}, files.length > 1 ? fileLabel(file, files) : file.label),
      facts([
        ["File", make("span", { class: "name" }, file.path)],
        ["Model", make("span", { class: "name" }, file.model), ...(file.model_b ? [make("span", { class: "name" }, file.model_b)] : [])],
        ["Command", make("code", {}, command?.argv ?? file.run.command ?? "not recorded")],
        ["Started", command?.started ?? "not recorded"],
        ["Schema", file.schema],
        ["Versions", ...versions(file)],
        ...(file.bits < 24 ? [["Rounding", `numbers of this page are rounded to ${file.bits} significant bits (relative error ` +
          `below ${(2 ** -file.bits).toExponential(1)}); the results file has all of them`]] : []),
        ["History", make("pre", {}, file.history || "none")],
      ]), inputs(file),
      ["settings", "config", "environment"].filter((name) => file.run[name]).map((name) =>
        make("details", {}, make("summary", {}, `/run/${name}`), make("pre", {}, file.run[name])))));
  }
};
