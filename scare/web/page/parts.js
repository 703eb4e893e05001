// Step 2: what is learned from, what is kept apart, and how much history a value is made of.
import { byId, head, make, next, refresh, refusal, select } from "./dom.js";
import { day, duration } from "./duration.js";
import { chart } from "./pictures.js";
import { number } from "./pages/words.js";

const PARTS = [["train", "learning"], ["validation", "choosing"], ["test", "the test"]];
const WINDOWS = [8, 16, 24, 60, 120, 240, 360, 720];
const LENGTHS = [["quick", "a quick try"], ["usual", "usual"], ["thorough", "thorough: three models averaged, three times as long"]];
const STEPS = [["", "as they are"], ["60", "1 minute"], ["300", "5 minutes"], ["600", "10 minutes"], ["1800", "30 minutes"], ["3600", "1 hour"]];

export function showParts(element, page, facts) {
  if (!element.firstChild) element.append(...head(2, "What is the test?", "The model learns from one part and is tested on another that it has never seen."), make("div", { id: "split" }), make("div", { id: "sides" }), make("div", { id: "bands" }), make("div", { id: "settings" }), make("div", { id: "after-2" }));
  const { state } = page, { said } = state.choices;
  const job = page.job("together"), found = page.results("together")?.[0];
  const fresh = job?.about.config === state.config;
  const devices = new Set(found?.devices ?? []);
  refresh(byId("split"), [said.split, devices.size], () => splits(said, devices.size, page));
  refresh(byId("sides"), [job?.ended, job?.state, job?.said, Boolean(found)], () => [
    job?.state === "running" && make("p", { className: "quiet", role: "status" }, "reading all rows …"), refusal(job), found && sides(found)]);
  refresh(byId("bands"), [job?.ended, Boolean(found), fresh, job?.state], () => (found && job.state === "done" ? bands(found, said, page) : []));
  refresh(byId("settings"), [said.window, said.step, said.board, said.length, found?.step_seconds], () => settings(said, found, page, facts));
  refresh(byId("after-2"), [job?.state], () => next(3, "Next: train", job?.state !== "refused"));
}

function splits(said, devices, page) {
  const radio = (value, text, hint, disabled) => make("label", { className: "choice" },
    make("input", { type: "radio", name: "split", id: `split-${value}`, value, checked: said.split === value, disabled, onchange: () => page.say({ split: value }) }),
    make("span", {}, make("b", {}, text), make("small", {}, hint)));
  return make("fieldset", {}, make("legend", {}, "The test is"),
    radio("time", "a later time", "Will it hold next month, on the same boxes?"),
    radio("device", "another box", devices < 3 ? "Needs at least three boxes beside the reference." : "Will it hold on a box it has never seen?", devices < 3 && said.split !== "device"));
}

function sides(found) {
  const one = found.first, same = one.sensor_unit === one.unit;
  const drawing = make("div", { id: "sides-chart" });
  requestAnimationFrame(() => chart(drawing, one.picture, [
    { label: one.sensor, name: "raw", scale: same ? "y" : "right" }, { label: `reference ${one.reference}`, name: "reference" }],
    { unit: one.unit, right: same ? "" : one.sensor_unit || one.sensor, label: `${one.sensor} and ${one.reference} over time` }));
  const notes = found.said.filter(Boolean).map((text) => make("li", {}, text));
  return [make("p", { className: "quiet" }, `${one.name}: ${number(one.rows)} rows, ${number(one.known)} with a reference`), drawing,
    notes.length > 0 && make("details", {}, make("summary", {}, "What was noticed"), make("ul", {}, notes))];
}

function bands(found, said, page) {
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
  return make("div", { className: "card" }, make("div", { className: "keys" }, legend), rows, axis, said.split === "time" && borders(found, from, to, said, page));
}

function borders(found, from, to, said, page) {
  const begins = (part) => Math.min(...found.parts.filter((one) => one.part === part).map((one) => one.from));
  const held = [begins("validation"), begins("test")];
  const labels = ["Choosing begins", "The test begins"];
  const inputs = held.map((time, index) => {
    const output = make("output", { htmlFor: `border-${index}` }, day(time));
    const input = make("input", {
      id: `border-${index}`, type: "range", min: from, max: to, step: 3600, value: time,
      oninput: ({ target }) => { output.textContent = day(Number(target.value)); },
      onchange: ({ target }) => page.say({ borders: held.map((one, other) => (other === index ? Number(target.value) : one)).sort((a, b) => a - b) }),
    });
    return make("div", { className: "row" }, make("label", { htmlFor: `border-${index}` }, labels[index]), input, output);
  });
  return [inputs, said.borders.length > 0 && make("button", { id: "usual-borders", onclick: () => page.say({ borders: [] }) }, "As proposed")];
}

function settings(said, found, page, facts) {
  const step = said.step ?? found?.step_seconds ?? 0;
  const lengths = [...new Set([...WINDOWS, said.window])].sort((a, b) => a - b).map((one) => [String(one), `${one} readings${step ? ` (${duration(one * step)})` : ""}`]);
  const boards = [["", "none in mind yet"], ...facts.boards.map((one) => [one.name, one.title])];
  const field = (id, label, hint, control) => make("div", { className: "field" }, make("label", { htmlFor: id }, label), control, make("small", {}, hint));
  return make("div", { className: "fields" },
    field("window", "History behind each value", "Long enough for your sensor to react and recover: an hour or two for most. After a gap nothing is calibrated until it is full.",
      select("window", lengths, String(said.window), (value) => page.say({ window: Number(value) }))),
    field("step", "Average readings to", "Only if the reference is slower than the sensor, or the step changes.",
      select("step", STEPS, said.step ? String(said.step) : "", (value) => page.say({ step: value ? Number(value) : null }))),
    field("board", "It is to run on", "The report says whether it fits.", select("board", boards, said.board, (value) => page.say({ board: value }))),
    field("length", "Training", "", select("length", LENGTHS, said.length, (value) => page.say({ length: value }))));
}
