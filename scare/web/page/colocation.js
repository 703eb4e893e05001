// In step 2: how far the co-location is, what to expect if it stopped today, and whether to go on.
import { upload } from "./api.js";
import { byId, inPage, make, refresh, refusal, select } from "./dom.js";
import { accepted } from "./files.js";

export function showProgress(element, page, facts) {
  const { state } = page, { selections } = state.setup, job = page.job("progress");
  refresh(element, [job?.state, page.of("progress"), job?.about.config === state.config, selections.targets, state.later], () => {
    const running = job?.state === "running", found = page.results("progress")?.[0];
    const sets = [["", "no class"], ...Object.entries(facts.targets_of_agencies)];
    return make("div", { className: "card" }, make("h4", {}, "Has it stood there long enough?"),
      make("p", { className: "quiet" }, "What error to expect if the co-location stopped today, and whether another week would pay. A table of the conditions to come, such as last year's readings with the same columns, tells what it has not seen yet."),
      make("p", { className: "row" }, make("label", { htmlFor: "progress-targets" }, "Class by"), select("progress-targets", sets, selections.targets, (value) => page.select({ targets: value })),
        make("label", { htmlFor: "conditions" }, "Conditions to come"), make("input", { id: "conditions", type: "file", accept: accepted(facts), onchange: ({ target }) => addConditions(target.files[0], page) })),
      state.later.length > 0 && make("p", { className: "quiet" }, `Compared with: ${state.later.join(", ")}`),
      make("p", {}, make("button", { id: "progress", disabled: running, onclick: () => page.start("progress", { deployment: state.later }) }, running ? "Checking …" : "Check")),
      refusal(job), found && job.state === "done" && [job.about.config !== state.config && make("p", { className: "hint" }, "The setup has changed since this was checked."), outcome(found, job)]);
  });
}

function outcome(found, job) {
  const rows = found.summary.map(([label, value]) => make("tr", {}, make("th", { scope: "row" }, label), make("td", {}, value)));
  return [make("p", { className: found.stop ? "good" : "hint", role: "status" }, make("b", {}, inPage(found.advice))),
    make("div", { className: "scroll" }, make("table", {}, make("tbody", {}, rows))),
    make("ul", { className: "notes" }, job.messages.filter((text) => !text.includes("flagged rows")).map((text) => make("li", {}, inPage(text))))];
}

async function addConditions(file, page) {
  try {
    await upload(`sessions/${page.id}/later/${encodeURIComponent(file.name)}`, file, () => {});
  } catch (error) {
    page.showError(error);
  }
}
