// Owns #table: every matrix of every file of `vindex measure`, sorted, filtered, copied; only rows on the screen are elements.
const { make, short, select, number, count, plural, nothing, choices, fileColour, announce } = require("tools");
const { prepare, metricOptions } = require("measure");

exports.id = "table";
exports.kind = "measure";
exports.title = "Table";
exports.lead = "Every selected matrix, measured or not. A click on a heading, or Enter, sorts; a row's name, or Enter on a row chosen by " +
  "arrow keys, shows its spectrum. " +
  "Empty values are NaN, with the reason in the last column.";

const kRowHeight = 28, kView = 16, kPrinted = 200, kPrintedNumbers = 3;
const kDefaultMetrics = ["var_at_64", "stable_rank", "effective_rank", "mp_outliers"];

/** A number of a row that may be -1, none. */
const numbered = (name) => ({
  name, isNumber: true, value: (row) => row.file[name][row.row],
  text: (row) => (row.file[name][row.row] < 0 ? "-" : String(row.file[name][row.row])),
});
const weights = (row) => {
  const [rows, cols] = row.file.shapes[row.file.shape[row.row]];
  return rows * cols;
};

/** A column: heading, value(row) to sort by, text(row), and whether it is a number. */
const identityColumns = (files) => [
  ...(files.length > 1 ? [{ name: "file", text: (row) => row.file.label, value: (row) => row.file.index, width: 9 }] : []),
  { name: "tensor", text: (row) => row.file.title(row.row), value: (row) => row.file.title(row.row), width: 20 },
  { ...numbered("layer"), width: 4 },
  { name: "block", text: (row) => row.file.text("block", row.row), width: 8.5 },
  { name: "role", text: (row) => row.file.text("role", row.row), width: 7.5 },
  { ...numbered("expert"), width: 4 },
  { name: "status", text: (row) => row.file.text("status", row.row), width: 6 },
];
const lastColumns = [
  { name: "shape", value: (row) => weights(row), text: (row) => row.file.shapeText(row.row), isNumber: true, width: 7.5 },
  { name: "encoding", text: (row) => row.file.text("encoding", row.row), width: 7 },
  { name: "method", text: (row) => row.file.text("method", row.row), width: 12 },
  { name: "reason", text: (row) => row.file.text("reason", row.row), width: 20 },
];

const metricColumns = async (files, metric) => {
  const besides = new Map(await Promise.all(files.map(async (file) => [file, await file.beside(metric)])));
  const has = (row) => row.file.isMeasured(row.row);
  const value = (row) => (has(row) ? besides.get(row.file).values[row.row] : NaN);
  const isWhole = files.some((file) => besides.get(file).whole);
  const width = Math.max(6, metric.length * 0.5 + 1);
  const columns = [{ name: metric, value, text: (row) => number(value(row), isWhole), isNumber: true, width }];
  if (files.some((file) => file.hasNull(metric))) {
    const ofNoise = (row) => besides.get(row.file).null(row.row);
    columns.push({ name: `${metric}_null`, value: ofNoise, text: (row) => number(ofNoise(row)), isNumber: true, width: width + 2.5 });
    const ratio = (row) => value(row) / ofNoise(row);
    columns.push({ name: `${metric}_ratio`, value: ratio, text: (row) => number(ratio(row)), isNumber: true, width: width + 2.8 });
  }
  return columns;
};

const compare = (column, sign) => {
  const value = column.value ?? column.text;
  return (a, b) => {
    const x = value(a), y = value(b);
    if (typeof x === "string") return sign * (x < y ? -1 : x > y ? 1 : 0);
    // What has no value comes last, whatever the order.
    if (Number.isNaN(x) || Number.isNaN(y)) return Number.isNaN(x) - Number.isNaN(y);
    return sign * (x - y);
  };
};

/** Text on the clipboard, also where the page is opened from a disk. */
const copy = async (text) => {
  try {
    await navigator.clipboard.writeText(text);
  } catch {
    const area = make("textarea", { class: "unseen" });
    area.value = text;
    document.body.append(area);
    area.select();
    document.execCommand("copy");
    area.remove();
  }
};

exports.draw = async (body, allFiles) => {
  const files = await prepare(allFiles);
  if (files.length === 0) return body.append(nothing("None of the files is of `vindex measure`."));
  const all = files.flatMap((file) => Array.from({ length: file.count }, (unused, row) => ({ file, row })));
  if (all.length === 0) return body.append(nothing("The run selected no matrix."));
  const names = metricOptions(files).map((option) => option.value);
  let chosen = kDefaultMetrics.filter((name) => names.includes(name));
  let columns = [], rows = all, order = { name: null, sign: 1 }, current = -1;

  const filter = make("input", { type: "search", placeholder: "layers.3 down_proj", spellcheck: "false", autocomplete: "off" });
  const states = [...new Set(files.flatMap((file) => file.status.texts))];
  const stateOptions = [{ value: "", text: "all" }, ...[...states, "escalated"].map((text) => ({ value: text, text }))];
  const state = select("Status", stateOptions, "", () => refilter());
  const button = make("button", { type: "button" }, "Copy as text");
  const boxes = make("fieldset", { class: "boxes" }, make("legend", {}, "Metrics, each beside its null and its ratio to it"),
    names.map((name) => make("label", {},
      make("input", { type: "checkbox", value: name, checked: chosen.includes(name), onchange: () => rechoose() }), name)));
  const status = make("p", { class: "lead", "aria-live": "polite" });
  const head = make("div", { class: "row head", role: "row" });
  const space = make("div", { class: "space", role: "rowgroup" });
  const box = make("div", { class: "rows", role: "table", "aria-label": "Every matrix", tabindex: "0" },
    make("div", { role: "rowgroup", class: "heads" }, head), space);
  const printed = make("div", { class: "printed" });
  body.append(make("div", { class: "controls" }, make("label", {}, "Words in the name, block, role, encoding or reason", filter),
    state.element, button),
    make("details", {}, make("summary", {}, "Columns"), boxes), status, box, printed);

  const cellsOf = (row, make_) => columns.map((column) => make_(column, column.text(row)));
  const drawRow = (row, place) => {
    const marks = `${row.file.isMeasured(row.row) ? "" : " bad"}${place === current ? " current" : ""}`;
    const cells = cellsOf(row, (column, text) => {
      if (column.name === "tensor") {
        return make("span", { role: "cell" }, make("button", { type: "button", class: "link", tabindex: "-1", title: text,
          onclick: () => choose(row) }, short(text, 300)));
      }
      const title = text === "NaN" ? row.file.text("reason", row.row) || "not defined" : column.isNumber ? null : text;
      return make("span", { role: "cell", class: `${column.isNumber ? "number" : ""}${text === "NaN" ? " none" : ""}`, title }, text);
    });
    const element = make("div", { class: `row${marks}`, id: `table-row-${place}`, role: "row", "aria-rowindex": place + 2 }, cells);
    element.style.top = `${place * kRowHeight}px`;
    return element;
  };
  const drawRows = () => {
    const first = Math.max(0, Math.floor((box.scrollTop - kRowHeight * 6) / kRowHeight));
    const last = Math.min(rows.length, first + Math.ceil(box.clientHeight / kRowHeight) + 12);
    space.style.height = `${rows.length * kRowHeight}px`;
    space.replaceChildren(...rows.slice(first, last).map((row, i) => drawRow(row, first + i)));
  };
  const choose = (row) => choices.show(row.file.index, row.row);
  const drawHead = () => {
    head.replaceChildren(...columns.map((column) => make("span", { role: "columnheader", class: column.isNumber ? "number" : "",
      "aria-sort": order.name === column.name ? (order.sign > 0 ? "ascending" : "descending") : "none" },
      make("button", { type: "button", class: "sort", onclick: () => sort(column) }, column.name,
        make("span", { "aria-hidden": "true" }, order.name === column.name ? (order.sign > 0 ? " \u25b2" : " \u25bc") : "")))));
    const widths = columns.map((column) => `minmax(${column.width}rem, ${column.isNumber ? "0.4fr" : "1fr"})`).join(" ");
    box.style.setProperty("--columns", widths);
    box.style.setProperty("--least", `${columns.reduce((sum, column) => sum + column.width + 0.75, 0)}rem`);
    box.setAttribute("aria-rowcount", rows.length + 1);
    box.setAttribute("aria-colcount", columns.length);
  };
  const say = () => {
    status.textContent = `${plural(rows.length, "matrix", "matrices")}${rows.length < all.length ? ` of ${count(all.length)}` : ""}` +
      (order.name ? `, by ${order.name} ${order.sign > 0 ? "ascending" : "descending"}` : ", in the order of the file");
    box.style.height = `${Math.min(kView, Math.max(3, rows.length + 1.6)) * kRowHeight + 12}px`;
  };
  const draw = () => { drawHead(); say(); drawRows(); };
  const resort = () => {
    const column = columns.find((one) => one.name === order.name);
    if (column) rows = [...rows].sort(compare(column, order.sign));
  };
  const sort = (column) => {
    order = { name: column.name, sign: order.name === column.name ? -order.sign : 1 };
    resort();
    current = -1;
    box.scrollTop = 0;
    draw();
    [...head.querySelectorAll("button")][columns.indexOf(column)].focus();
    announce(status.textContent);
  };
  const refilter = () => {
    const words = filter.value.toLowerCase().split(/\s+/).filter(Boolean);
    const wanted = state.select.value;
    rows = all.filter(({ file, row }) => {
      if (wanted === "escalated" ? file.escalated[row] !== 1 : wanted && file.text("status", row) !== wanted) return false;
      if (words.length === 0) return true;
      const texts = ["block", "role", "encoding", "reason"].map((column) => file.text(column, row));
      const text = [file.label, file.title(row), ...texts].join(" ").toLowerCase();
      return words.every((word) => text.includes(word));
    });
    resort();
    current = -1;
    box.scrollTop = 0;
    draw();
  };
  const rechoose = async () => {
    chosen = [...boxes.querySelectorAll("input:checked")].map((input) => input.value);
    columns = [...identityColumns(files), ...(await Promise.all(chosen.map((name) => metricColumns(files, name)))).flat(), ...lastColumns];
    draw();
  };
  let timer = 0;
  filter.addEventListener("input", () => { clearTimeout(timer); timer = setTimeout(refilter, 120); });
  box.addEventListener("scroll", drawRows);
  // Rows come and go with scrolling, so the focus stays on the table: arrows choose a row, Enter shows its spectrum.
  box.addEventListener("keydown", (event) => {
    if (event.target !== box || rows.length === 0) return;
    const steps = { ArrowDown: 1, ArrowUp: -1, PageDown: kView - 3, PageUp: 3 - kView, Home: -rows.length, End: rows.length };
    if (event.key === "Enter" && current >= 0) return choose(rows[current]);
    if (!(event.key in steps)) return;
    event.preventDefault();
    current = Math.max(0, Math.min(rows.length - 1, current + steps[event.key]));
    const top = current * kRowHeight, height = box.clientHeight - head.offsetHeight;
    if (top < box.scrollTop) box.scrollTop = top;
    else if (top + kRowHeight > box.scrollTop + height) box.scrollTop = top + kRowHeight - height;
    drawRows();
    box.setAttribute("aria-activedescendant", `table-row-${current}`);
    announce(cellsOf(rows[current], (column, text) => `${column.name} ${text}`).join(", "));
  });
  new ResizeObserver(drawRows).observe(box);
  button.addEventListener("click", async () => {
    const lines = [columns.map((column) => column.name), ...rows.map((row) => cellsOf(row, (column, text) => text.replace(/[\t\n\r]/g, " ")))];
    await copy(lines.map((line) => line.join("\t")).join("\n") + "\n");
    announce(`${count(rows.length)} rows copied`);
    button.textContent = `Copied ${count(rows.length)} rows`;
    setTimeout(() => { button.textContent = "Copy as text"; }, 2500);
  });
  // Paper has no scrolling: the first rows as they are sorted, and how many are left out.
  const print = () => {
    const wide = columns.length - identityColumns(files).length - lastColumns.length;
    const few = columns.filter((column, i) => ["file", "tensor", "shape", "status"].includes(column.name) ||
      (i >= columns.length - wide - lastColumns.length && i < columns.length - wide - lastColumns.length + kPrintedNumbers));
    const text = (column, row) => column.text(row) +
      (column.name === "status" && !row.file.isMeasured(row.row) ? `: ${row.file.text("reason", row.row)}` : "");
    printed.replaceChildren(make("table", {}, make("thead", {}, make("tr", {}, few.map((column) => make("th", {}, column.name)))),
      make("tbody", {}, rows.slice(0, kPrinted).map((row) => make("tr", {}, few.map((column) =>
        make("td", { class: column.isNumber ? "number" : column.name === "tensor" ? "name" : "" }, short(text(column, row)))))))),
      rows.length <= kPrinted ? ""
        : make("p", {}, `${count(kPrinted)} of ${count(rows.length)} rows; ${count(rows.length - kPrinted)} are left out on paper.`));
  };
  addEventListener("beforeprint", print);
  addEventListener("afterprint", () => printed.replaceChildren());
  await rechoose();
  if (matchMedia("print").matches) print();
};
