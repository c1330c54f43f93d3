// Owns drawing a chart: a Vega view of a specification that is made once its place is on the screen or about to be printed,
// follows the width of its place, and says what it shows to those who do not see it.
const vega = require("vega");
const { tooltip, announce, tooltipText } = require("tools");

/** Colours are variables of page.css, so that charts follow the theme as they are. */
const font = "system-ui, 'Segoe UI', 'Helvetica Neue', 'Noto Sans', Arial, sans-serif";
const configuration = {
  background: null,
  axis: { domainColor: "var(--rule)", tickColor: "var(--rule)", gridColor: "var(--rule)", labelColor: "var(--soft)",
    titleColor: "var(--soft)", labelFontSize: 11, titleFontSize: 11, titleFontWeight: "normal", labelFont: font,
    titleFont: font, gridOpacity: 0.6 },
  text: { fill: "var(--ink)", fontSize: 11, font },
  rule: { stroke: "var(--soft)" },
};

const waiting = new Map();
const drawing = new Set();
const seen = new IntersectionObserver((entries) => {
  for (const { target, isIntersecting } of entries) if (isIntersecting) begin(target);
}, { rootMargin: "400px" });
const begin = (element) => {
  const draw = waiting.get(element);
  if (draw === undefined) return null;
  waiting.delete(element);
  seen.unobserve(element);
  const running = Promise.resolve(draw()).finally(() => drawing.delete(running));
  drawing.add(running);
  return running;
};
/** Calls `draw` once `element` comes near the screen. */
exports.whenSeen = (element, draw) => {
  waiting.set(element, draw);
  seen.observe(element);
};
/** Draws everything that waits, and what that makes wait. */
exports.drawAll = async () => {
  while (waiting.size + drawing.size > 0) {
    [...waiting.keys()].forEach(begin);
    await Promise.all(drawing);
  }
};
addEventListener("beforeprint", () => { exports.drawAll(); });
/** Draws what waits, one after the other, while nothing else is to be done: printing does not wait for it. */
const idle = globalThis.requestIdleCallback ?? ((callback) => setTimeout(callback, 200));
const drawWhenIdle = () => idle(async () => {
  const [next] = waiting.keys();
  if (next === undefined && drawing.size === 0) return;
  await (next === undefined ? Promise.all(drawing) : begin(next));
  drawWhenIdle();
});
addEventListener("load", () => setTimeout(drawWhenIdle, 1500));

/**
 * A chart of the specification `name` (NAME.vg.json) in a new element, which is returned at once.
 * data: {name: rows} of the specification; signals: {name: value}; width(available): pixels of the plotting area;
 * label: what it shows, in words; tip(datum): {title, rows} or null; pick(datum): called on a click or Enter;
 * walk: [data in the order of arrow keys: function (datum, key) => datum]; focus: name of a data set that holds the walked one.
 */
exports.chart = (name, options) => {
  const element = document.createElement("div");
  element.className = "chart";
  element.setAttribute("role", "group");
  element.setAttribute("aria-label", options.label);
  element.dataset.chart = name;
  if (options.height) element.style.minHeight = `${options.height}px`;
  exports.whenSeen(element, () => drawn(element, name, options));
  return element;
};

const drawn = async (element, name, { data = {}, signals = {}, width, label, tip, pick, walk }) => {
  const specification = require(`${name}.vg.json`);
  const holder = document.createElement("div");
  element.replaceChildren(holder);
  const view = vega.view(specification, configuration, { container: holder, hover: false });
  view.description(label);
  view.tooltip((handler, event, item, value) => {
    const shown = value && item && item.datum && tip ? tip(item.datum) : null;
    tooltip(event.clientX, event.clientY, shown);
  });
  const fit = () => Math.max(60, Math.floor(width ? width(element.clientWidth) : element.clientWidth));
  for (const [key, value] of Object.entries(signals)) view.signal(key, value);
  for (const [key, rows] of Object.entries(data)) view.data(key, rows);
  let last = element.clientWidth;
  view.width(fit());
  if (pick) view.addEventListener("click", (event, item) => { if (item && item.datum) pick(item.datum); });
  await view.runAsync();
  element.dataset.drawn = "yes";
  new ResizeObserver(() => {
    if (element.clientWidth === last || element.clientWidth === 0) return;
    last = element.clientWidth;
    view.width(fit()).runAsync();
  }).observe(element);
  if (walk) keys(element, view, { tip, pick, walk });
};

const arrows = ["ArrowLeft", "ArrowRight", "ArrowUp", "ArrowDown", "Home", "End"];
/** Arrow keys walk over the marks of a chart that has the focus, Enter picks one. */
const keys = (element, view, { tip, pick, walk }) => {
  element.tabIndex = 0;
  let current = null;
  element.addEventListener("keydown", async (event) => {
    if (event.key === "Enter" && current && pick) {
      event.preventDefault();
      pick(current);
    } else if (event.key === "Escape") {
      tooltip(0, 0, null);
    } else if (arrows.includes(event.key)) {
      event.preventDefault();
      current = walk(current, event.key);
      if (!current) return;
      await view.data("focus", [current]).runAsync();
      const mark = element.querySelector(".mark-rect.focus_mark path, .mark-symbol.focus_mark path");
      const box = (mark ?? element).getBoundingClientRect();
      if (mark) mark.scrollIntoView({ block: "nearest", inline: "nearest" });
      const shown = tip ? tip(current) : null;
      tooltip(box.right, box.bottom, shown);
      if (shown) announce(tooltipText(shown));
    }
  });
  element.addEventListener("blur", () => { tooltip(0, 0, null); view.data("focus", []).runAsync(); });
};
