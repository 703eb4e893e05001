// Step 3: progress of the training, and its result beside the baselines.
import { bar, byId, head, make, next, refresh, refusal } from "./dom.js";
import { duration } from "./duration.js";
import { chart, meter } from "./charts.js";
import { number } from "./pages/format.js";
import { arithmetic, fits } from "./board.js";

const NAMES = { raw: "sensor reading as is", linear: "linear regression", "linear, all": "linear regression, all channels", ridge: "ridge regression", boosting: "gradient boosting" };

const AXIS = 4; // times the median error: a longer bar is cut and marked
const LEVELS = { good: "good", "usable with care": "hint", "not usable": "bad" };

export function showTraining(element, page, facts) {
  if (!element.firstChild) element.append(...head(3, "Train", "The model learns to turn the readings of your sensor into those of the reference, and keeps the best result."), ...["train-start", "train-now", "train-curve", "train-end", "train-fit", "after-3"].map((id) => make("div", { id })));
  const job = page.job("train"), found = page.results("train")?.[0], { state } = page;
  const running = job?.state === "running", stale = job && !running && job.about.config !== state.config;
  refresh(byId("train-start"), [running, Boolean(job), stale, state.setup.selections.length], () => startButton(job, running, stale, page, facts.missing.train));
  refresh(byId("train-now"), running && [job.progress, job.messages.at(-1), job.about.stopping], () => (running ? now(job, page) : []));
  refresh(byId("train-curve"), job?.curve, () => (job?.curve.length ? curve(job) : []));
  refresh(byId("train-end"), [job?.state, page.of("train")], () => (running ? [] : [refusal(job), lost(job, found), found && end(found, job, page)]));
  fit(byId("train-fit"), page, facts);
  refresh(byId("after-3"), page.trained, () => next(4, "Next: report", page.trained));
}

function startButton(job, running, stale, page, remedy) {
  if (running) return [];
  if (remedy) return make("p", { id: "no-training", className: "hint" }, `Training needs packages that are not installed. Stop scare open, ${remedy}, and start it again: your files and choices stay here. Without them this page checks files, and calibrates with a calibrator that you have.`);
  const button = make("button", { id: "train", className: job && !stale ? "" : "main", onclick: () => page.start("train") }, job ? "Train again" : "Start training");
  return [stale && make("p", { className: "hint" }, "The setup has changed since this was trained. Train again to use it."), make("p", {}, button, make("span", { className: "quiet" }, job ? "" : " This takes from half a minute to a few minutes. You may close the page meanwhile."))];
}

function now(job, page) {
  const { completed, total, state } = job.progress;
  const words = job.about.stopping ? "Stopping. The best result so far is kept." : state ? `Round ${state.round} of ${state.rounds}, about ${duration(state.seconds_left)} left` : job.messages.at(-1) ?? "Getting ready …";
  const after = completed && completed === total ? job.messages.at(-1)?.startsWith("Fitting") ? job.messages.at(-1) : "Scoring …" : words;
  return make("div", { className: "card" }, bar(total ? completed / total : null, "Training"), make("p", { role: "status" }, after),
    make("button", { id: "stop", disabled: Boolean(job.about.stopping), onclick: () => page.ask("jobs/train", "DELETE") }, "Stop and keep the best result"));
}

const lost = (job, found) => job?.state === "stopped" && !found && make("p", { className: "hint" }, "Stopped before there was a result to keep.");

// Whether the calibrator fits the selected board; measured as soon as it is trained.
function fit(element, page, { boards }) {
  const board = boards.find(({ name }) => name === page.state.setup.selections.board);
  const name = board && `measure:${board.name}:${arithmetic(board)}`, job = page.job(name), found = page.results(name)?.[0];
  if (board && page.trained && !job && page.measured !== page.job("train").ended) {
    page.measured = page.job("train").ended;
    page.start(`measure:${board.name}`, { arithmetic: arithmetic(board) });
  }
  refresh(element, [name, page.trained, job?.state, page.of(name)], () => {
    if (!board || !page.trained) return [];
    if (!found) return refusal(job) ?? make("p", { className: "quiet", role: "status" }, `Building it for ${board.title} …`);
    return make("p", { className: found.fits ? "good" : "bad", role: "status" }, fits(found, board));
  });
}

function curve(job) {
  const drawing = make("div", {}), caption = make("p", { className: "quiet" }, "Validation error, round by round");
  requestAnimationFrame(() => chart(drawing, [job.curve.map(([round]) => round), job.curve.map(([, error]) => error)],
    [{ label: "validation error", name: "calibrated" }], { time: false, height: 180, last: job.progress.total, label: "Validation error by round" }));
  return [caption, drawing];
}

function end(found, job, page) {
  const unit = page.results("together")?.[0]?.first.unit ?? "";
  const scores = Object.entries(found.scores), errors = scores.map(([, one]) => one.rmse).sort((a, b) => a - b);
  const axis = Math.min(errors.at(-1), AXIS * errors[Math.floor(errors.length / 2)]);
  const ours = scores.at(-1)[0];
  const rows = scores.map(([name, one]) => make("tr", { className: name === ours ? "ours" : "" },
    make("th", { scope: "row" }, name === ours ? "calibrated by scare" : NAMES[name] ?? name),
    make("td", { "data-label": "typical error" }, number(one.rmse)), make("td", { className: "wide" }, meter(one.rmse / axis, name === ours ? "ours" : "")),
    make("td", { "data-label": "R²" }, number(one.r2)), make("td", { "data-label": "bias" }, number(one.bias))));
  const best = scores.find(([name]) => name === ours)[1], raw = found.scores.raw;
  const seen = `On ${number(best.rows)} rows that it has never seen`;
  const sentence = raw ? `${seen}, the typical error ${best.rmse < raw.rmse ? "falls" : "rises"} from ${number(raw.rmse)} to ${number(best.rmse)} ${unit}`.trim() : `${seen}, the typical error is ${number(best.rmse)} ${unit}`.trim();
  const summary = found.facts.summary ?? found.facts.verdict; // the key of older sessions
  return make("div", { className: "card" },
    job.state === "stopped" && make("p", { className: "hint" }, "Stopped early. This is the best result until then."),
    found.verdict && verdict(found.verdict), make("p", {}, make("b", {}, `${sentence}.`)), summary && make("p", { className: "quiet" }, summary),
    make("div", { className: "scroll" }, make("table", { className: "bars" },
      make("caption", {}, `Error on the same test rows (RMSE${unit && `, in ${unit}`})`),
      make("thead", {}, make("tr", {}, ["", "typical error", "", "R²", "bias"].map((text) => make("th", { scope: "col" }, text)))), make("tbody", {}, rows))),
    equation(found, page.results("train")[1]));
}

const verdict = ({ level, text }) => make("p", { id: "verdict", className: `verdict ${LEVELS[level]}`, role: "status" }, make("b", {}, `${level[0].toUpperCase()}${level.slice(1)}. `), text);

// The equation of a linear calibrator, of each device if they differ; otherwise that of a plain line.
function equation(found, info) {
  const own = Object.entries(info?.equations ?? {}).map(([device, text]) => (device ? `${device}: ${text}` : text));
  const shown = own.length ? own : found.facts.straight_line ?? [];
  if (!shown.length) return [];
  const text = shown.join("\n");
  const button = make("button", { id: "copy-equation", onclick: async () => { await navigator.clipboard.writeText(text); button.textContent = "Copied"; } }, "Copy");
  return [make("h4", {}, own.length ? "The equation" : "As a plain equation, without what the calibrator adds"), make("pre", { id: "equation", tabIndex: 0 }, text), button];
}
