// Owns the opening of the page: head, warnings, contents, theme, and each part once it comes near the screen.
const data = require("data");
const tools = require("tools");
const chart = require("chart");
const { make, count } = tools;

const files = data.files();

const byId = (id) => document.getElementById(id);

const theme = () => {
  const root = document.documentElement, system = matchMedia("(prefers-color-scheme: dark)");
  const orders = ["system", "light", "dark"];
  let chosen = "system";
  const apply = () => {
    root.dataset.theme = chosen === "system" ? (system.matches ? "dark" : "light") : chosen;
    byId("theme").textContent = `Theme: ${chosen}`;
  };
  byId("theme").addEventListener("click", () => {
    chosen = orders[(orders.indexOf(chosen) + 1) % 3];
    apply();
  });
  system.addEventListener("change", apply);
  // Paper is light whatever the screen is.
  addEventListener("beforeprint", () => { root.dataset.theme = "light"; });
  addEventListener("afterprint", apply);
  apply();
};

const card = (file) => {
  const counts = file.counts;
  return make("article", { class: "card", mark: tools.fileColour(file.index) },
    make("h2", {}, file.label),
    make("p", {}, make("span", { class: "name" }, file.model),
      file.model_b ? [" beside ", make("span", { class: "name" }, file.model_b)] : ""),
    make("p", {}, counts
      ? `${count(counts.measured)} of ${count(counts.total)} matrices measured, mode ${file.mode}, back end ${file.backend}`
      : `vindex ${file.kind}${file.backend ? `, back end ${file.backend}` : ""}`));
};

const warnings = (file) => {
  const out = [];
  if (file.status !== "complete") {
    const left = file.counts ? ` (${count(file.counts.skipped)} of ${count(file.counts.total)} matrices are left)` : "";
    out.push(`${file.label} is partial: the run has not reached every row${left}. The same command again resumes it.`);
  }
  if (file.sampled_of > file.counts?.total) {
    out.push(`${file.label} is a sample: ${count(file.counts.total)} of ${count(file.sampled_of)} matrices of the model were ` +
      "selected. Counts, sums and extremes are those of the sample.");
  }
  for (const { table, rows } of file.left_out ?? []) {
    out.push(`${file.label} has ${tools.plural(rows, "row")} in /${table}/ that this page does not show; vindex show --table ${table} does.`);
  }
  return out;
};

const part = (section) => {
  const body = make("div", { class: "body" });
  const element = make("section", { id: section.id, "aria-labelledby": `${section.id}-title` },
    make("h2", { id: `${section.id}-title` }, section.title), make("p", { class: "lead" }, section.lead), body);
  chart.whenSeen(element, async () => {
    try {
      await section.draw(body, files, tools);
    } catch (error) {
      body.append(make("p", { class: "warning" }, `This part could not be drawn: ${error.message}`));
      console.error(error);
    }
    element.dataset.ready = "yes";
  });
  return element;
};

theme();
byId("title").textContent = files.map((file) => file.label).join(" beside ");
byId("files").append(...files.map(card));
byId("warnings").append(...files.flatMap(warnings).map((text) => make("p", { class: "warning" }, text)));
const sections = require("sections").filter(({ kind }) => kind === null || kind === "measure" || files.some((file) => file.kind === kind));
byId("contents").append(...sections.map(({ id, title }) => make("a", { href: `#${id}` }, title)));
byId("main").append(...sections.map(part));
/** For whoever wants all of the page at once: tests, and people who save it as a picture. */
globalThis.vindexReport = { drawAll: chart.drawAll, files: files.length };
