// Owns the list of jobs: a card for each, live while it runs.
import { ask, bytes, duration, queue } from "./api.js";

const ENDED = new Set(["done", "failed", "cancelled", "lost"]);
// A browser has six connections to a server; the list itself needs some.
const MOST_STREAMS = 3;
const cards = new Map();
const streams = new Map();
let tell = () => {};
let canReport = false;

export function begin(options) {
  ({ tell, canReport } = options);
}

/** Shows a page of jobs, the latest first; `first` says whether it is the first page. */
export function show(jobs, first) {
  const list = document.querySelector("#jobs ol");
  for (const job of jobs) if (!cards.has(job.id)) cards.set(job.id, card());
  if (first) list.prepend(...jobs.map((job) => cards.get(job.id).item));
  else list.append(...jobs.map((job) => cards.get(job.id).item));
  // The earliest first: later ones name them.
  for (const job of [...jobs].reverse()) if (!streams.has(job.id)) draw(job);
  follow(jobs);
  document.querySelector("#no-jobs").hidden = cards.size > 0;
}

function follow(jobs) {
  for (const job of jobs) {
    if (job.state !== "running" || streams.has(job.id) || streams.size >= MOST_STREAMS) continue;
    const stream = new EventSource(`/v1/jobs/${job.id}/events`);
    streams.set(job.id, stream);
    const end = () => {
      stream.close();
      streams.delete(job.id);
    };
    stream.addEventListener("state", (event) => draw(JSON.parse(event.data)));
    stream.addEventListener("progress", (event) => progress(job.id, JSON.parse(event.data)));
    stream.addEventListener("end", (event) => {
      end();
      draw(JSON.parse(event.data));
    });
    // A server that is started again answers again; one that refuses is asked by the list.
    stream.addEventListener("error", () => stream.readyState === EventSource.CLOSED && end());
  }
}

function card() {
  const item = document.querySelector("#job").content.cloneNode(true).querySelector("li");
  const part = (name) => item.querySelector(name);
  return { item, part, shown: "", about: "" };
}

function draw(job) {
  const { item, part } = cards.get(job.id);
  item.dataset.id = job.id;
  item.dataset.state = job.state;
  cards.get(job.id).about = `${job.verb} ${subject(job)}`;
  part(".verb").textContent = job.verb;
  part(".model").textContent = subject(job);
  part(".state").textContent =
    job.cancel_requested && !ENDED.has(job.state) ? "stopping" : job.state;
  part(".state").className = `state ${job.state}`;
  const time = part("time");
  time.dateTime = new Date(job.created * 1000).toISOString();
  time.textContent = new Date(job.created * 1000).toLocaleString();
  part(".said").textContent = spoken(job).map((words) => ` · ${words}`).join("");
  part(".doing").hidden = job.state !== "running";
  if (job.progress) progress(job.id, job.progress);
  part(".error").hidden = !job.error;
  part(".error").classList.toggle("soft", job.state === "cancelled");
  part(".error").textContent = job.error ? `${job.error.id}: ${job.error.text}` : "";
  buttons(job);
  const state = `${job.state} ${job.attempt}`;
  if (ENDED.has(job.state) && cards.get(job.id).shown !== state) {
    cards.get(job.id).shown = state;
    files(job);
  }
}

/** What a job works on, for people: models by name, results by the job that made them. */
function subject(job) {
  const others = [job.options.b, job.options.spec, job.options.files].flat();
  return [job.model, ...others].filter(Boolean).map(named).join(" and ");
}

function named(id) {
  const known = cards.get(id.replace(/^job:/, ""));
  return known && known.about ? known.about : id;
}

function spoken(job) {
  const words = [];
  for (const [name, value] of Object.entries(job.options)) {
    if (!["b", "spec", "files"].includes(name)) words.push(value === true ? name : `${name} ${value}`);
  }
  if (job.finished && job.started) words.push(`took ${duration(job.finished - job.started)}`);
  if (job.attempt > 1) words.push(`start ${job.attempt}`);
  return words;
}

function progress(id, data) {
  const { part } = cards.get(id);
  const share = data.total ? data.done / data.total : 0;
  part("progress").value = share;
  const left = data.eta_seconds > 0 ? `, ${duration(data.eta_seconds)} left` : "";
  part(".count").textContent = `${data.done} of ${data.total}${left}`;
  part(".tensor").textContent = data.tensor || "";
}

function button(text, label, press) {
  const result = document.createElement("button");
  result.type = "button";
  result.textContent = text;
  result.setAttribute("aria-label", label);
  result.addEventListener("click", async () => {
    result.disabled = true;
    try {
      await press();
    } catch (error) {
      tell(error.message, true);
    }
    result.disabled = false;
  });
  return result;
}

function buttons(job) {
  const wanted = [];
  const title = `${job.verb} ${subject(job)}`;
  if (!ENDED.has(job.state) && !job.cancel_requested) {
    const stop = () => ask(`/v1/jobs/${job.id}`, { method: "DELETE" }).then(draw);
    wanted.push(["Cancel", `Cancel ${title}`, stop]);
  }
  if (job.resumable) {
    const again = () => ask(`/v1/jobs/${job.id}/resume`, { method: "POST" }).then(draw);
    wanted.push(["Resume", `Resume ${title}`, again]);
  }
  if (canReport && job.verb === "measure" && ENDED.has(job.state) && job.progress) {
    const report = async () => {
      await queue({ verb: "report", model: job.id });
      tell("A report is being written; it will be among the jobs.");
    };
    wanted.push(["Report", `Write a report of ${title}`, report]);
  }
  const { part } = cards.get(job.id);
  const names = wanted.map(([text]) => text).join();
  // Only what changes is made anew, so that the focus stays where it is.
  if (part(".actions").dataset.names === names) return;
  part(".actions").dataset.names = names;
  part(".actions").replaceChildren(...wanted.map((one) => button(...one)));
}

async function files(job) {
  const { part } = cards.get(job.id);
  let found;
  try {
    found = await ask(`/v1/results/${job.id}`);
  } catch {
    return;
  }
  const items = found.files.slice(0, 8).map((file) => {
    const link = document.createElement("a");
    link.href = `/v1/results/${job.id}/file?name=${encodeURIComponent(file.name)}`;
    link.textContent = `${file.name} (${bytes(file.bytes)})`;
    if (!file.name.endsWith(".h5")) link.target = "_blank";
    link.rel = "noopener";
    const item = document.createElement("li");
    item.append(link);
    return item;
  });
  if (found.files.length > 8) {
    const rest = document.createElement("li");
    rest.textContent = `and ${found.files.length - 8} more`;
    items.push(rest);
  }
  if (found.tables.matrix) {
    const item = document.createElement("li");
    const link = document.createElement("a");
    link.href = `/v1/results/${job.id}/matrix?limit=1000`;
    link.textContent = "rows (JSON)";
    link.target = "_blank";
    link.rel = "noopener";
    item.append(link);
    items.push(item);
  }
  part(".files").replaceChildren(...items);
}
