// Step 2: training, validation and test parts, and the window behind each value.
import { byId, head, inPage, make, next, refresh, refusal, select } from "./dom.js";
import { day, duration } from "./duration.js";
import { chart } from "./charts.js";
import { showProgress } from "./colocation.js";
import { number } from "./pages/format.js";

const PARTS = [["train", "training"], ["validation", "validation"], ["test", "test"]];
const AUTO = "auto"; // the window follows the time step and the length of the data
const WINDOWS = [8, 16, 24, 60, 120, 240, 360, 720];
const LENGTHS = [["quick", "quick (to try it out)"], ["usual", "normal"], ["thorough", "thorough (averages three models, takes three times as long)"]];
const STEPS = [["", "as they are"], ["60", "1 minute"], ["300", "5 minutes"], ["600", "10 minutes"], ["1800", "30 minutes"], ["3600", "1 hour"]];

export function showParts(element, page, facts) {
  if (!element.firstChild) element.append(...head(2, "Split the data", "The model learns from one part of the data and is tested on another part that it has never seen."), make("div", { id: "split" }), make("div", { id: "sides" }), make("div", { id: "bands" }), make("div", { id: "settings" }), make("div", { id: "stay" }), make("div", { id: "after-2" }));
  const { state } = page, { selections } = state.setup;
  const job = page.job("together"), found = page.results("together")?.[0];
  const fresh = job?.about.config === state.config;
  const devices = new Set(found?.devices ?? []);
  refresh(byId("split"), [selections.split, devices.size], () => splits(selections, devices.size, page));
  refresh(byId("sides"), [job?.state, job?.messages, page.of("together")], () => [
    job?.state === "running" && make("p", { className: "quiet", role: "status" }, "Reading all rows …"), refusal(job), found && sides(found)]);
  refresh(byId("bands"), [page.of("together"), fresh, job?.state], () => (found && job.state === "done" ? bands(found, selections, page) : []));
  refresh(byId("settings"), [selections.window, selections.step, selections.board, selections.length, found?.step_seconds, found?.window], () => settings(selections, found, page, facts));
  showProgress(byId("stay"), page, facts);
  refresh(byId("after-2"), [job?.state], () => next(3, "Next: train", job?.state !== "refused"));
}

function splits(selections, devices, page) {
  const radio = (value, text, hint, disabled) => make("label", { className: "choice" },
    make("input", { type: "radio", name: "split", id: `split-${value}`, value, checked: selections.split === value, disabled, onchange: () => page.select({ split: value }) }),
    make("span", {}, make("b", {}, text), make("small", {}, hint)));
  return make("fieldset", {}, make("legend", {}, "Test on"),
    radio("time", "a later time", "Does the calibration still hold next month, on the same boxes?"),
    radio("device", "another box", devices < 3 ? "This needs at least three boxes beside the reference." : "Does the calibration hold on a box that it has never seen?", devices < 3 && selections.split !== "device"));
}

function sides(found) {
  const one = found.first, same = one.comparable;
  const drawing = make("div", { id: "sides-chart" });
  requestAnimationFrame(() => chart(drawing, one.picture, [
    { label: one.sensor, name: "raw", scale: same ? "y" : "right" }, { label: `reference ${one.reference}`, name: "reference" }],
    { unit: one.unit, right: same ? "" : one.sensor_unit || one.sensor, label: `${one.sensor} and ${one.reference} over time` }));
  const notes = (found.notes ?? []).filter(Boolean).map((text) => make("li", {}, inPage(text)));
  return [make("p", { className: "quiet" }, `${one.name}: ${number(one.rows)} rows, ${number(one.known)} with a reference`), drawing,
    notes.length > 0 && make("details", {}, make("summary", {}, "Notes about the data"), make("ul", {}, notes))];
}

function bands(found, selections, page) {
  const from = Math.min(...found.parts.map((one) => one.from)), to = Math.max(...found.parts.map((one) => one.to));
  const share = (time) => (100 * (time - from)) / Math.max(1, to - from);
  const names = [...new Set(found.parts.map((one) => one.device))];
  const rows = names.map((name) => {
    const band = make("span", { className: "band" });
    for (const one of found.parts.filter(({ device }) => device === name)) {
      const piece = make("i", { className: one.part, title: `${one.part}: ${number(one.rows)} rows with a reference` });
      piece.style.left = `${share(one.from)}%`;
      piece.style.width = `${Math.max(0.4, share(one.to) - share(one.from))}%`;
      band.append(piece);
    }
    return make("div", { className: "lane" }, make("span", {}, name), band);
  });
  const count = (part) => found.parts.filter((one) => one.part === part).reduce((sum, one) => sum + one.rows, 0);
  const legend = PARTS.map(([part, text]) => make("span", { className: "key" }, make("i", { className: part }), ` ${text}: ${number(count(part))} rows`));
  const axis = make("div", { className: "lane" }, make("span", {}), make("span", { className: "ends" }, make("span", {}, day(from)), make("span", {}, day(to))));
  return make("div", { className: "card" }, make("div", { className: "keys" }, legend), rows, axis, selections.split === "time" && borders(found, from, to, selections, page));
}

function borders(found, from, to, selections, page) {
  const begins = (part) => Math.min(...found.parts.filter((one) => one.part === part).map((one) => one.from));
  const current = [begins("validation"), begins("test")];
  const labels = ["Validation begins", "Test begins"];
  const inputs = current.map((time, index) => {
    const output = make("output", { htmlFor: `border-${index}` }, day(time));
    const input = make("input", {
      id: `border-${index}`, type: "range", min: from, max: to, step: 3600, value: time,
      oninput: ({ target }) => { output.textContent = day(Number(target.value)); },
      onchange: ({ target }) => page.select({ borders: current.map((one, other) => (other === index ? Number(target.value) : one)).sort((a, b) => a - b) }),
    });
    return make("div", { className: "row" }, make("label", { htmlFor: `border-${index}` }, labels[index]), input, output);
  });
  return [inputs, selections.borders.length > 0 && make("button", { id: "usual-borders", onclick: () => page.select({ borders: [] }) }, "Reset")];
}

function settings(selections, found, page, facts) {
  const step = selections.step ?? found?.step_seconds ?? 0;
  const chosen = selections.window === AUTO && found ? `automatic (${duration(found.window * step)})` : "automatic";
  const counts = [...new Set([...WINDOWS, ...(Number.isInteger(selections.window) ? [selections.window] : [])])].sort((a, b) => a - b);
  const lengths = [[AUTO, chosen], ...counts.map((one) => [String(one), `${one} readings${step ? ` (${duration(one * step)})` : ""}`])];
  const boards = [["", "not decided yet"], ...facts.boards.map((one) => [one.name, one.title])];
  const field = (id, label, hint, control) => make("div", { className: "field" }, make("label", { htmlFor: id }, label), control, make("small", {}, hint));
  return make("div", { className: "fields" },
    field("window", "Window (history behind each value)", "Long enough for your sensor to react and recover: an hour or two for most. After a gap nothing is calibrated until the window is full again.",
      select("window", lengths, String(selections.window), (value) => page.select({ window: value === AUTO ? AUTO : Number(value) }))),
    field("step", "Average readings to", "Only needed if the reference is slower than the sensor, or if the time step changes.",
      select("step", STEPS, selections.step ? String(selections.step) : "", (value) => page.select({ step: value ? Number(value) : null }))),
    field("board", "Board", "The report says whether the calibrator fits.", select("board", boards, selections.board, (value) => page.select({ board: value }))),
    field("length", "Training length", "", select("length", LENGTHS, selections.length, (value) => page.select({ length: value }))));
}
