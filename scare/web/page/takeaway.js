// Step 5: everything to take away, whether it fits a board, the proof, and the commands that do the same.
import { download, upload } from "./api.js";
import { bar, byId, head, make, refresh, refusal, select } from "./dom.js";
import { number } from "./pages/words.js";
import { KB, arithmetic } from "./board.js";

const TITLES = { c: "C", arduino: "Arduino library", platformio: "PlatformIO library", zephyr: "Zephyr module", esphome: "ESPHome component", micropython: "MicroPython module", tflite: "TensorFlow Lite", onnx: "ONNX" };

export function showTakeAway(element, page, facts) {
  if (!element.firstChild) element.append(...head(5, "Take away", "Save what you need: the calibrator, calibrated readings, or firmware for a board."), ...["files-5", "boards", "targets", "proof", "commands"].map((id) => make("div", { id })));
  page.board ??= page.state.choices.said.board || facts.boards[0].name;
  page.arithmetic ??= arithmetic(facts.boards.find(({ name }) => name === page.board));
  measure(page, facts);
  const { jobs, files, later, choices } = page.state;
  const some = (kind) => Object.values(jobs).filter((job) => job.name.startsWith(kind)).map((job) => [job.name, job.state, job.ended, job.said.at(-1), Boolean(page.results(job.name))]);
  refresh(byId("files-5"), [some("predict"), some("report"), files, later], () => results(page, files, later, choices));
  refresh(byId("boards"), [some("measure"), page.arithmetic, page.board], () => boards(page, facts));
  refresh(byId("targets"), [some("export"), page.arithmetic, page.board], () => targets(page, facts));
  refresh(byId("proof"), [some("verify"), page.board], () => proof(page, facts));
  refresh(byId("commands"), Object.values(jobs).map((job) => [job.state, job.commands]), () => commands(page));
}

const save = (page, file, text) => make("button", { id: `save-${file}`, onclick: () => download(page.id, file).catch((error) => page.complain(error)) }, text);

function results(page, files, later, choices) {
  const sensors = files.filter((name) => page.job(`look:${name}`)?.state === "done" && name !== choices.reference_file);
  return make("div", { className: "card" }, make("h4", {}, "Files"),
    make("p", { className: "row" }, save(page, "model.scare", "The calibrator (.scare)"), report(page)),
    make("h4", {}, "Calibrated readings"),
    make("ul", { className: "plain" }, [...sensors, ...later].map((name) => calibrated(name, page))),
    make("p", { className: "quiet" }, make("label", { htmlFor: "another" }, "Of another file of the same kind: "), make("input", { id: "another", type: "file", accept: ".csv,.gz,.tsv,.txt,.parquet", onchange: ({ target }) => another(target.files[0], page) })));
}

function report(page) {
  const job = page.job("report"), running = job?.state === "running";
  if (job?.state === "done") return save(page, "run/report.html", "The report (.html)");
  return [make("button", { id: "make-report", disabled: running, onclick: () => page.begin("report") }, running ? "making the report …" : "Make the report"), refusal(job)];
}

function calibrated(name, page) {
  const job = page.job(`predict:${name}`);
  return make("li", { className: "row" }, make("span", { className: "name" }, name),
    job?.state === "done" ? save(page, job.about.file, "Save as CSV") : make("button", { id: `predict-${name}`, disabled: job?.state === "running", onclick: () => page.begin(`predict:${name}`) }, job?.state === "running" ? "calibrating …" : "Calibrate"),
    refusal(job), job?.state === "done" && make("small", {}, job.said.filter((text) => text.includes("rows calibrated")).at(-1)));
}

async function another(file, page) {
  try {
    const { name } = await upload(`sessions/${page.id}/later/${encodeURIComponent(file.name)}`, file, () => {});
    await page.begin(`predict:${name}`);
  } catch (error) {
    page.complain(error);
  }
}

function boards(page, facts) {
  const measured = (name) => page.results(`measure:${name}:${page.arithmetic}`)?.[0];
  const rows = facts.boards.map((one) => {
    const job = page.job(`measure:${one.name}:${page.arithmetic}`), found = measured(one.name);
    const radio = make("input", { type: "radio", name: "board", id: `board-${one.name}`, checked: page.board === one.name, onchange: () => { page.board = one.name; page.show(); } });
    const fits = !found ? (job?.state === "running" ? "measuring …" : "") : found.fits ? make("span", { className: "good" }, "fits") : make("span", { className: "bad" }, `does not fit: ${found.reasons.join("; ")}`);
    const cell = (label, ...children) => make("td", { "data-label": label }, children);
    return make("tr", {}, make("th", { scope: "row" }, make("label", {}, radio, ` ${one.title}`)),
      cell("memory", found ? `${KB(found.ram_bytes)} of ${KB(one.ram)}` : ""), cell("flash", found ? `${KB(found.flash_bytes)} of ${KB(one.flash)}` : ""),
      cell("time", found?.milliseconds ? `${number(found.milliseconds.typical)} ms` : ""), cell("", fits, found ? null : refusal(job)));
  });
  const kinds = [["int8", "whole numbers (small and fast)"], ["float32", "decimal numbers (as in Python)"]];
  return make("div", { className: "card" }, make("h4", {}, "Which board?"),
    make("p", { className: "row" }, make("label", { htmlFor: "arithmetic" }, "Computed in"), select("arithmetic", kinds, page.arithmetic, (value) => { page.arithmetic = value; page.show(); })),
    make("div", { className: "scroll" }, make("table", {}, make("thead", {}, make("tr", {}, ["board", "memory", "flash", "time of one value (estimate)", ""].map((text) => make("th", { scope: "col" }, text)))), make("tbody", {}, rows))));
}

// Every board is measured once for a calibrator and an arithmetic.
function measure(page, { boards }) {
  const asked = `${page.job("train").ended} ${page.arithmetic}`;
  if (page.measuring === asked) return;
  page.measuring = asked;
  for (const { name } of boards) if (!page.job(`measure:${name}:${page.arithmetic}`)) page.begin(`measure:${name}`, { arithmetic: page.arithmetic });
}

function targets(page, facts) {
  const board = facts.boards.find((one) => one.name === page.board);
  const items = facts.targets.map((target) => {
    const job = page.job(`export:${target.name}`);
    const button = job?.state === "done" ? save(page, job.about.file, "Save the zip")
      : make("button", { id: `export-${target.name}`, disabled: job?.state === "running", onclick: () => page.begin(`export:${target.name}`, { arithmetic: page.arithmetic, board: target.in_c ? page.board : "" }) }, job?.state === "running" ? "making it …" : "Make it");
    const again = job?.state === "done" && make("button", { id: `again-${target.name}`, "aria-label": `Make again: ${TITLES[target.name] ?? target.name}`, onclick: () => page.begin(`export:${target.name}`, { arithmetic: page.arithmetic, board: target.in_c ? page.board : "" }) }, "Make again");
    return make("li", {}, make("b", {}, TITLES[target.name] ?? target.name), make("small", {}, target.about), make("div", { className: "row" }, button, again), refusal(job));
  });
  return make("div", { className: "card" }, make("h4", {}, "Firmware"), make("p", { className: "quiet" }, `For ${board.title}, computed in ${page.arithmetic}; each zip has a README that says how it is used.`), make("ul", { className: "targets" }, items));
}

function proof(page, facts) {
  const job = page.job("verify"), found = page.results("verify")?.[0];
  const verdict = found && (found.passed
    ? make("p", { className: "good", role: "status" }, `Passed: Python, C on this computer and C on ${found.made_with?.board ?? "the virtual board"} compute the same.`)
    : make("p", { className: "bad", role: "status" }, "Failed: the numbers differ. ", job.said.filter((text) => text.startsWith("it fails")).join(" ")));
  return make("div", { className: "card" }, make("h4", {}, "Proof"), make("p", {}, "Does the board compute what this computer computes? Its firmware is built and run on a virtual board, reading by reading."),
    make("div", { className: "row" }, make("button", { id: "verify", disabled: job?.state === "running", onclick: () => page.begin("verify", { board: page.board }) }, job?.state === "running" ? "verifying …" : "Verify"), found && save(page, "certificate.json", "The certificate (.json)")),
    job?.state === "running" && bar(null, "Verifying"), found ? verdict : refusal(job));
}

function commands(page) {
  const order = ["train", "report", "predict", "measure", "export", "verify"];
  const jobs = Object.values(page.state.jobs).filter((job) => job.state !== "running").sort((a, b) => order.indexOf(a.name.split(":")[0]) - order.indexOf(b.name.split(":")[0]) || a.began - b.began);
  const text = [`cd ${quote(page.state.folder)}`, ...jobs.flatMap((job) => job.commands)].join("\n");
  const button = make("button", { id: "copy", onclick: async () => { await navigator.clipboard.writeText(text); button.textContent = "Copied"; } }, "Copy");
  return make("details", { className: "card", open: true }, make("summary", {}, "The same by commands"), make("pre", { id: "command-list", tabIndex: 0 }, text), button);
}

const quote = (path) => (/^[\w@%+=:,./-]+$/.test(path) ? path : `'${path.replaceAll("'", "'\\''")}'`);
