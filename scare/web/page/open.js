// The page: sessions, five steps, and the state that the server sends whenever something changes.
import { ask, enter, events, upload } from "./api.js";
import { byId, make } from "./dom.js";
import { showFiles } from "./files.js";
import { showParts } from "./split.js";
import { showReport } from "./report.js";
import { showDownloads } from "./downloads.js";
import { showTraining } from "./training.js";

const STEPS = ["Files", "Split", "Train", "Report", "Download"];
const SHOW = [showFiles, showParts, showTraining, showReport, showDownloads];
const PREVIEW_AFTER = 500; // milliseconds without another change
let facts, page, listening, waiting;

class Page {
  constructor(id) {
    this.id = id;
    this.step = 1;
    this.found = new Map();
  }

  ask(path, method, body) {
    return ask(`sessions/${this.id}/${path}`, method, body).catch((error) => this.showError(error));
  }

  select(changes) {
    return this.ask("selections", "POST", changes);
  }

  start(job, request = {}) {
    return this.ask(`jobs/${encodeURIComponent(job)}`, "POST", request);
  }

  job(name) {
    return this.state.jobs[name];
  }

  // The results of a finished job, fetched once; while it runs again, the former ones.
  results(name) {
    const job = this.job(name), known = this.found.get(name);
    if (!job) return undefined;
    if (job.state === "running" || known?.ended === job.ended) return known?.results;
    this.found.set(name, { ...known, ended: job.ended });
    this.ask(`jobs/${encodeURIComponent(name)}`).then((results) => {
      this.found.set(name, { ended: job.ended, results, of: job.ended });
      this.show();
    });
    return known?.results;
  }

  // When the job ended whose results `results` gives; a part that shows them is drawn again when this changes.
  of(name) {
    return this.results(name) && this.found.get(name).of;
  }

  showError(error) {
    byId("problem").textContent = error.message;
    byId("problem").hidden = false;
  }

  update(state) {
    this.state = state;
    byId("session-title").textContent = state.title;
    document.title = `${state.title} · scare open`;
    this.show();
    this.previewColocation();
  }

  // Sensor and reference are previewed as soon as it is known which is which, and again after a change.
  previewColocation() {
    const { config } = this.state, job = this.job("together");
    clearTimeout(waiting);
    if (this.step > 2 || !config || job?.about.config === config) return;
    waiting = setTimeout(() => this.start("together"), PREVIEW_AFTER);
  }

  // The job that made the calibrator: trained here, or opened from a file.
  get maker() {
    return this.job("train") ?? this.job("open");
  }

  get trained() {
    const job = this.maker;
    return Boolean(job && job.state !== "running" && this.results(job.name)?.[0]);
  }

  allows(step) {
    if (step === 1) return true;
    return step <= 3 ? Boolean(this.state.config) : this.trained && (step === 5 || Boolean(this.job("train")));
  }

  show() {
    if (!this.state) return;
    if (!this.allows(this.step) && !(this.step === 5 && this.job("open"))) this.step = 1;
    const items = STEPS.map((text, index) => {
      const step = index + 1, current = step === this.step;
      const button = make("button", { id: `go-${step}`, disabled: !this.allows(step), onclick: () => this.go(step) }, make("b", {}, String(step)), ` ${text}`);
      if (current) button.setAttribute("aria-current", "step");
      return make("li", { className: current ? "current" : "" }, button);
    });
    const focused = document.activeElement?.id;
    byId("steps").replaceChildren(...items);
    if (focused?.startsWith("go-")) byId(focused).focus();
    SHOW.forEach((show, index) => {
      const element = byId(`step-${index + 1}`);
      element.hidden = index + 1 !== this.step;
      if (!element.hidden) show(element, this, facts);
    });
  }

  go(step) {
    this.step = step;
    byId("problem").hidden = true;
    history.replaceState(null, "", `#${this.id}/${step}`);
    this.show();
    this.previewColocation();
    byId(`title-${step}`)?.focus();
    scrollTo(0, 0);
  }
}

function connect(on) {
  byId("connection").textContent = on ? "On this computer" : "Not connected. Is scare open still running?";
  byId("connection").className = `pill ${on ? "on" : "off"}`;
}

async function listen(id, signal) {
  while (!signal.aborted) {
    try {
      for await (const state of events(`sessions/${id}/events`, signal)) {
        connect(true);
        page.update(state);
      }
    } catch (error) {
      if (!signal.aborted) connect(false);
    }
    await new Promise((done) => setTimeout(done, 1000));
  }
}

function showOnly(id) {
  for (const name of ["welcome", "session", "lost"]) byId(name).hidden = name !== id;
}

async function route() {
  const [id, step] = location.hash.slice(1).split("/");
  listening?.abort();
  page = undefined;
  if (!id) return welcome();
  showOnly("session");
  for (const element of document.querySelectorAll(".step")) element.replaceChildren();
  page = new Page(id);
  page.step = Number(step) || 1;
  listening = new AbortController();
  listen(id, listening.signal);
}

async function welcome() {
  showOnly("welcome");
  document.title = "scare open";
  facts = await ask("sessions");
  connect(true);
  byId("kept-title").hidden = !facts.sessions.length;
  byId("kept").replaceChildren(...facts.sessions.map(card));
  byId("where").textContent = `Sessions are kept in ${facts.folder}.`;
}

function card({ id, title, created }) {
  const remove = make("button", {
    id: `delete-${id}`, "aria-label": `Delete ${title}`,
    onclick: async () => {
      if (!confirm(`Delete “${title}” and all its files?`)) return;
      await ask(`sessions/${id}`, "DELETE");
      welcome();
    },
  }, "Delete");
  return make("li", {}, make("a", { href: `#${id}/1` }, title), make("span", { className: "quiet" }, created.slice(0, 10)), remove);
}

async function openModel(file) {
  const { id } = await ask("sessions", "POST", { title: file.name.replace(/\.scare$/, "") });
  await upload(`sessions/${id}/model`, file, () => {});
  location.hash = `${id}/5`;
}

async function main() {
  addEventListener("lost", ({ detail }) => {
    listening?.abort();
    showOnly("lost");
    connect(false);
    byId("lost-reason").textContent = detail;
  });
  addEventListener("step", ({ detail }) => page.go(detail));
  addEventListener("hashchange", route);
  byId("new").addEventListener("submit", async (event) => {
    event.preventDefault();
    const { id } = await ask("sessions", "POST", { title: byId("title").value });
    byId("title").value = "";
    location.hash = `${id}/1`;
  });
  byId("own-model").addEventListener("change", ({ target }) => openModel(target.files[0]).catch((error) => {
    byId("welcome-problem").textContent = error.message;
    byId("welcome-problem").hidden = false;
  }));
  try {
    await enter();
    facts = await ask("sessions");
  } catch (error) {
    dispatchEvent(new CustomEvent("lost", { detail: error.message }));
    return;
  }
  route();
}

main();
