// Owns the page: signing in, the list of models, the form, and asking again every few seconds.
import { ask, bytes, queue, Refused } from "./api.js";
import * as jobs from "./jobs.js";

const SECONDS = 2;
const find = (selector) => document.querySelector(selector);
let next = null;
let timer = 0;
let away = false;

function tell(text, bad = false) {
  find("#message").textContent = text;
  find("#message").classList.toggle("bad", bad);
}

function measureForm() {
  return find("#measure form");
}

async function showModels() {
  const { models } = await ask("/v1/models");
  find("#no-models").hidden = models.length > 0;
  const measurable = models.filter((model) => model.kind !== "dump");
  const cards = models.map((model) => {
    const item = document.createElement("li");
    item.className = "card";
    const about = document.createElement("div");
    const name = document.createElement("h3");
    const shown = document.createElement("bdi");
    shown.className = "name";
    shown.textContent = model.id;
    name.append(shown);
    const line = document.createElement("p");
    line.className = "soft";
    const files = model.files > 1 ? `, ${model.files} files` : "";
    line.textContent = `${model.kind}${files}, ${bytes(model.bytes)}`;
    about.append(name, line);
    item.append(about);
    if (model.kind !== "dump") {
      const choose = document.createElement("button");
      choose.type = "button";
      choose.textContent = "Choose";
      choose.setAttribute("aria-label", `Choose ${model.id}`);
      choose.addEventListener("click", () => {
        measureForm().elements.model.value = model.id;
        measureForm().elements.layers.focus();
      });
      item.append(choose);
    }
    return item;
  });
  find("#models ul").replaceChildren(...cards);
  const options = measurable.map((model) => new Option(model.id, model.id));
  measureForm().elements.model.replaceChildren(...options);
}

async function showJobs() {
  const page = await ask("/v1/jobs?limit=25");
  jobs.show(page.jobs, true);
  if (next === null) {
    next = page.next_cursor;
    find("#more").hidden = !next;
  }
}

async function look() {
  clearTimeout(timer);
  try {
    if (!document.hidden) {
      const health = await ask("/health");
      const { running, queued } = health.jobs;
      find("#health").textContent =
        `${running} running, ${queued} waiting${health.status === "ok" ? "" : ", disk full"}`;
      await showJobs();
      if (away) tell("");
      away = false;
    }
  } catch (error) {
    if (error instanceof Refused && error.status === 401) return start();
    away = true;
    tell("The server does not answer; jobs go on without it. Trying again.", true);
  }
  timer = setTimeout(look, SECONDS * 1000);
}

async function start() {
  let session;
  try {
    session = await ask("/session");
  } catch {
    tell("The server does not answer. Trying again.", true);
    timer = setTimeout(start, SECONDS * 1000);
    return;
  }
  find("#sign-in").hidden = session.signed_in;
  find("#content").hidden = !session.signed_in;
  find("#sign-out").hidden = !(session.token_needed && session.signed_in);
  if (!session.signed_in) {
    find("#health").textContent = "not signed in";
    find("#sign-in").elements.token.focus();
    return;
  }
  const known = await ask("/openapi.json");
  const body = known.paths["/v1/jobs"].post.requestBody.content["application/json"].schema;
  const canReport = body.oneOf.some((verb) => verb.title === "report");
  jobs.begin({ tell, canReport });
  try {
    await showModels();
  } catch (error) {
    tell(error.message, true);
  }
  await look();
}

find("#sign-in").addEventListener("submit", async (event) => {
  event.preventDefault();
  const field = event.target.elements.token;
  const headers = { Authorization: `Bearer ${field.value}` };
  field.value = "";
  try {
    await ask("/session", { method: "POST", headers });
    tell("");
    await start();
  } catch (error) {
    tell(error instanceof Refused ? "That is not the token." : "The server does not answer.", true);
  }
});

find("#sign-out").addEventListener("click", async () => {
  await ask("/session", { method: "DELETE" });
  location.reload();
});

measureForm().addEventListener("submit", async (event) => {
  event.preventDefault();
  const { model, layers, blocks, mode } = event.target.elements;
  const options = {};
  if (layers.value.trim()) options.layers = layers.value.trim();
  if (blocks.value.trim()) options.blocks = blocks.value.trim();
  if (mode.value !== "default") options.mode = mode.value;
  const button = event.target.querySelector("button");
  button.disabled = true;
  try {
    await queue({ verb: "measure", model: model.value, options });
    tell("");
    await look();
  } catch (error) {
    tell(error instanceof Refused ? error.message : "The server does not answer.", true);
  }
  button.disabled = false;
});

find("#more").addEventListener("click", async () => {
  const page = await ask(`/v1/jobs?limit=25&cursor=${next}`);
  jobs.show(page.jobs, false);
  next = page.next_cursor || "";
  find("#more").hidden = !next;
});

document.addEventListener("visibilitychange", () => document.hidden || look());
start();
