// Step 3: training as it goes, and what came of it beside what others would do.
import { bar, byId, head, make, next, refresh, refusal } from "./dom.js";
import { duration } from "./duration.js";
import { chart, meter } from "./pictures.js";
import { number } from "./pages/words.js";
import { arithmetic, fits } from "./board.js";

const NAMES = { raw: "the sensor as it is", linear: "a straight line", "linear, all": "a line with temperature and humidity", ridge: "ridge regression", boosting: "gradient boosting" };

export function showTraining(element, page, facts) {
  if (!element.firstChild) element.append(...head(3, "Train", "The model learns to turn what your sensor says into what the reference said. It keeps the best it finds."), ...["train-begin", "train-now", "train-curve", "train-end", "train-fit", "after-3"].map((id) => make("div", { id })));
  const job = page.job("train"), found = page.results("train")?.[0], { state } = page;
  const running = job?.state === "running", stale = job && !running && job.about.config !== state.config;
  refresh(byId("train-begin"), [running, Boolean(job), stale, state.choices.said.length], () => begin(job, running, stale, page));
  refresh(byId("train-now"), running && [job.progress, job.said.at(-1), job.about.stopping], () => (running ? now(job, page) : []));
  refresh(byId("train-curve"), job?.curve, () => (job?.curve.length ? curve(job) : []));
  refresh(byId("train-end"), [job?.state, job?.ended, Boolean(found)], () => (running ? [] : [refusal(job), lost(job, found), found && end(found, job)]));
  fit(byId("train-fit"), page, facts);
  refresh(byId("after-3"), page.trained, () => next(4, "Next: report", page.trained));
}

function begin(job, running, stale, page) {
  if (running) return [];
  const button = make("button", { id: "train", className: job && !stale ? "" : "main", onclick: () => page.begin("train") }, job ? "Train again" : "Start training");
  return [stale && make("p", { className: "hint" }, "Something was changed since this was trained."), make("p", {}, button, make("span", { className: "quiet" }, job ? "" : " This takes from half a minute to some minutes; the page may be closed meanwhile."))];
}

function now(job, page) {
  const { completed, total, state } = job.progress;
  const words = job.about.stopping ? "stopping; the best so far is kept" : state ? `round ${state.round} of ${state.rounds}, about ${duration(state.seconds_left)} left` : job.said.at(-1) ?? "getting ready …";
  const after = completed && completed === total ? job.said.at(-1)?.startsWith("fitting") ? job.said.at(-1) : "scoring" : words;
  return make("div", { className: "card" }, bar(total ? completed / total : null, "Training"), make("p", { role: "status" }, after),
    make("button", { id: "stop", disabled: Boolean(job.about.stopping), onclick: () => page.ask("jobs/train", "DELETE") }, "Stop and keep the best"));
}

const lost = (job, found) => job?.state === "stopped" && !found && make("p", { className: "hint" }, "Stopped before there was anything to keep.");

// Whether the board that was chosen can hold it; measured as soon as it is trained.
function fit(element, page, { boards }) {
  const board = boards.find(({ name }) => name === page.state.choices.said.board);
  const name = board && `measure:${board.name}:${arithmetic(board)}`, job = page.job(name), found = page.results(name)?.[0];
  if (board && page.trained && !job && page.measured !== page.job("train").ended) {
    page.measured = page.job("train").ended;
    page.begin(`measure:${board.name}`, { arithmetic: arithmetic(board) });
  }
  refresh(element, [name, page.trained, job?.state, Boolean(found)], () => {
    if (!board || !page.trained) return [];
    if (!found) return refusal(job) ?? make("p", { className: "quiet", role: "status" }, `building it for ${board.title} …`);
    return make("p", { className: found.fits ? "good" : "bad", role: "status" }, fits(found, board));
  });
}

function curve(job) {
  const drawing = make("div", {}), caption = make("p", { className: "quiet" }, "Error on the part for choosing, round by round");
  requestAnimationFrame(() => chart(drawing, [job.curve.map(([round]) => round), job.curve.map(([, error]) => error)],
    [{ label: "error on the part for choosing", name: "calibrated" }], { time: false, height: 180, last: job.progress.total, label: "Validation error by round" }));
  return [caption, drawing];
}

function end(found, job) {
  const scores = Object.entries(found.scores), most = Math.max(...scores.map(([, one]) => one.rmse));
  const ours = scores.at(-1)[0];
  const rows = scores.map(([name, one]) => make("tr", { className: name === ours ? "ours" : "" },
    make("th", { scope: "row" }, name === ours ? "calibrated by scare" : NAMES[name] ?? name),
    make("td", { "data-label": "typical error" }, number(one.rmse)), make("td", { className: "wide" }, meter(one.rmse / most, name === ours ? "ours" : "")),
    make("td", { "data-label": "R²" }, number(one.r2)), make("td", { "data-label": "bias" }, number(one.bias))));
  const best = scores.find(([name]) => name === ours)[1], raw = found.scores.raw;
  const said = raw ? `On ${number(best.rows)} rows it has never seen, the typical error falls from ${number(raw.rmse)} to ${number(best.rmse)}.` : "";
  return make("div", { className: "card" },
    job.state === "stopped" && make("p", { className: "hint" }, "Stopped early: this is the best until then."),
    make("p", {}, make("b", {}, said)), found.facts.verdict && make("p", { className: "quiet" }, found.facts.verdict),
    make("div", { className: "scroll" }, make("table", { className: "bars" },
      make("caption", {}, "Error on the same test rows (RMSE)"),
      make("thead", {}, make("tr", {}, ["", "typical error", "", "R²", "bias"].map((text) => make("th", { scope: "col" }, text)))), make("tbody", {}, rows))));
}
