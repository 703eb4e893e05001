// Step 4: the report, in a frame and as a file.
import { ask, download } from "./api.js";
import { byId, bar, head, make, next, refresh, refusal } from "./dom.js";
import { siteForm } from "./site.js";

export function showReport(element, page, facts) {
  if (!element.firstChild) element.append(...head(4, "Report", "A page that you can send to an agency or a colleague. It opens in any browser, even offline."), ...["site-facts", "report-state", "report-frame", "after-4"].map((id) => make("div", { id })));
  refresh(byId("site-facts"), page.id, () => siteForm(page, facts));
  const job = page.job("report"), pdf = page.job("pdf"), trained = page.job("train");
  if (!job || (job.state !== "running" && job.began < trained.ended)) {
    if (page.reported !== trained.ended) page.start("report");
    page.reported = trained.ended;
  }
  const { facts: site, reference_uncertainty: uncertainty } = page.state.setup.selections;
  const stated = JSON.stringify([site, uncertainty]);
  if (job?.state === "running") page.stated = stated;
  const stale = page.stated !== undefined && page.stated !== stated;
  refresh(byId("report-state"), [job?.state, job?.progress, job?.messages.at(-1), pdf?.state, stale], () => [
    job?.state === "running" && make("div", { className: "card" }, bar(job.progress.total ? job.progress.completed / job.progress.total : null, "Report"), make("p", { role: "status" }, "Measuring and drawing …")),
    refusal(job),
    job?.state === "refused" && make("button", { onclick: () => page.start("report") }, "Try again"),
    job?.state === "done" && make("p", { className: "row" },
      make("button", { id: "save-report", onclick: () => download(page.id, "run/report.html") }, "Save the report"),
      pdf?.state === "done" && pdf.began > job.ended && !stale ? make("button", { id: "save-pdf", onclick: () => download(page.id, "run/report.pdf") }, "Save the PDF")
        : make("button", { id: "make-pdf", disabled: pdf?.state === "running", onclick: () => page.start("pdf") }, pdf?.state === "running" ? "Printing …" : "Make a PDF"),
      make("button", { id: "again-report", className: stale ? "main" : "", onclick: () => page.start("report") }, "Make the report again")),
    refusal(pdf)]);
  refresh(byId("report-frame"), job?.state === "done" && job.ended, () => (job?.state === "done" ? frame(page) : []));
  refresh(byId("after-4"), true, () => next(5, "Next: download"));
}

function frame(page) {
  const element = make("iframe", { title: "Calibration report", className: "report", sandbox: "allow-scripts allow-downloads" });
  ask(`sessions/${page.id}/tickets`, "POST", { file: "run/report.html" }).then(({ address }) => { element.src = `${address}?framed`; });
  return element;
}
