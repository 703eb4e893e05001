// Step 4: the report as it can be sent, embedded.
import { ask, download } from "./api.js";
import { byId, bar, head, make, next, refresh, refusal } from "./dom.js";

export function showReport(element, page) {
  if (!element.firstChild) element.append(...head(4, "Report", "A page to send to an agency or a colleague: it opens in any browser, without a network."), ...["report-state", "report-frame", "after-4"].map((id) => make("div", { id })));
  const job = page.job("report"), trained = page.job("train");
  if (!job || (job.state !== "running" && job.began < trained.ended)) {
    if (page.asked !== trained.ended) page.begin("report");
    page.asked = trained.ended;
  }
  refresh(byId("report-state"), [job?.state, job?.progress, job?.said.at(-1)], () => [
    job?.state === "running" && make("div", { className: "card" }, bar(job.progress.total ? job.progress.completed / job.progress.total : null, "Report"), make("p", { role: "status" }, "measuring and drawing …")),
    refusal(job),
    job?.state === "refused" && make("button", { onclick: () => page.begin("report") }, "Try again"),
    job?.state === "done" && make("button", { id: "save-report", onclick: () => download(page.id, "run/report.html") }, "Save the report")]);
  refresh(byId("report-frame"), job?.state === "done" && job.ended, () => (job?.state === "done" ? frame(page) : []));
  refresh(byId("after-4"), true, () => next(5, "Next: take it away"));
}

function frame(page) {
  const element = make("iframe", { title: "Calibration report", className: "report", sandbox: "allow-scripts allow-downloads" });
  ask(`sessions/${page.id}/tickets`, "POST", { file: "run/report.html" }).then(({ address }) => { element.src = `${address}?framed`; });
  return element;
}
