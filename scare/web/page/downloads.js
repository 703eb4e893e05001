// Step 5: downloads, whether the calibrator fits a board, the proof, and the same steps as commands.
import { download, upload } from "./api.js";
import { bar, byId, head, make, refresh, refusal, select } from "./dom.js";
import { number } from "./pages/format.js";
import { KB, arithmetic } from "./board.js";
import { accepted } from "./files.js";

const TITLES = { c: "C", arduino: "Arduino library", platformio: "PlatformIO library", espidf: "ESP-IDF component", zephyr: "Zephyr module", esphome: "ESPHome component", lorawan: "LoRaWAN payload and codec", rust: "Rust crate", micropython: "MicroPython module", tflite: "TensorFlow Lite", onnx: "ONNX" };

const ARITHMETIC = { fixed: "fixed point", float32: "floating point" };

export function showDownloads(element, page, facts) {
  if (!element.firstChild) element.append(...head(5, "Download", "Save what you need: the calibrator, calibrated readings, or firmware for a board."), ...["files-5", "boards", "targets", "proof", "commands"].map((id) => make("div", { id })));
  page.board ??= page.state.setup.selections.board || facts.boards[0].name;
  page.arithmetic ??= arithmetic(facts.boards.find(({ name }) => name === page.board));
  measure(page, facts);
  const { jobs, files, later, setup } = page.state, opened = page.job("open");
  if (!page.trained) {
    refresh(byId("files-5"), [opened?.state], () => (opened?.state === "running" ? make("p", { role: "status" }, "Reading the calibrator …") : refusal(opened)));
    return;
  }
  const jobStates = (kind) => Object.values(jobs).filter((job) => job.name.startsWith(kind)).map((job) => [job.name, job.state, job.messages.at(-1), page.of(job.name)]);
  refresh(byId("files-5"), [jobStates("predict"), jobStates("report"), files, later], () => results(page, facts, files, later, setup));
  refresh(byId("boards"), [jobStates("measure"), page.arithmetic, page.board], () => boards(page, facts));
  refresh(byId("targets"), [jobStates("export"), page.arithmetic, page.board], () => targets(page, facts));
  refresh(byId("proof"), [jobStates("verify"), page.board], () => proof(page, facts));
  refresh(byId("commands"), Object.values(jobs).map((job) => [job.state, job.commands]), () => commands(page));
}

const save = (page, file, text) => make("button", { id: `save-${file}`, onclick: () => download(page.id, file).catch((error) => page.showError(error)) }, text);

function results(page, facts, files, later, setup) {
  const sensors = files.filter((name) => page.job(`look:${name}`)?.state === "done" && name !== setup.reference_file);
  return make("div", { className: "card" }, make("h4", {}, "Files"),
    make("p", { className: "row" }, save(page, "model.scare", "The calibrator (.scare)"), page.job("train") && report(page)),
    make("h4", {}, "Calibrated readings"),
    make("ul", { className: "plain" }, [...sensors, ...later].map((name) => calibrated(name, page))),
    make("p", { className: "quiet" }, make("label", { htmlFor: "another" }, "Another file from the same sensor: "), make("input", { id: "another", type: "file", accept: accepted(facts), onchange: ({ target }) => calibrateUpload(target.files[0], page) })));
}

function report(page) {
  const job = page.job("report"), running = job?.state === "running";
  if (job?.state === "done") return save(page, "run/report.html", "The report (.html)");
  return [make("button", { id: "make-report", disabled: running, onclick: () => page.start("report") }, running ? "Making the report …" : "Make the report"), refusal(job)];
}

function calibrated(name, page) {
  const job = page.job(`predict:${name}`), found = page.results(`predict:${name}`)?.[0];
  return make("li", { className: "row" }, make("span", { className: "name" }, name, job?.state === "done" && found && doubts(found)),
    job?.state === "done" ? save(page, job.about.file, "Save as CSV") : make("button", { id: `predict-${name}`, disabled: job?.state === "running", onclick: () => page.start(`predict:${name}`) }, job?.state === "running" ? "Calibrating …" : "Calibrate"),
    refusal(job));
}

const DOUBTS = { outside: "beyond what training saw (OUTSIDE)", unsettled: "before the device's own mean is known (UNSETTLED)", negative: "negative" };

// What to know before a prediction is used: rows without a value, doubtful ones, devices that training did not have.
function doubts({ rows, calibrated, devices, new_devices: strangers }) {
  const calibratedRows = `${number(calibrated)} of ${number(rows)} rows have a calibrated value`;
  if (!devices) return make("small", {}, `${calibratedRows}.`); // of an older session
  const sum = (what) => Object.values(devices).reduce((total, one) => total + one[what], 0);
  const counts = Object.entries(DOUBTS).map(([what, words]) => [sum(what), words]).filter(([count]) => count);
  const known = Object.keys(devices).length, names = `${strangers.slice(0, 5).join(", ")}${strangers.length > 5 ? " …" : ""}`;
  return [
    make("small", {}, `${calibratedRows}${counts.length ? "" : "; none is outside training, unsettled or negative"}.`),
    counts.map(([count, words]) => make("small", { className: "odd" }, `${number(count)} rows are ${words}.`)),
    strangers.length > 0 ? make("small", { className: "odd" }, `Not in training: ${names}. Compare values with a reference before you rely on them.`)
      : make("small", {}, known === 1 ? "The device was in training." : `All ${known} devices were in training.`),
  ];
}

async function calibrateUpload(file, page) {
  try {
    const { name } = await upload(`sessions/${page.id}/later/${encodeURIComponent(file.name)}`, file, () => {});
    await page.start(`predict:${name}`);
  } catch (error) {
    page.showError(error);
  }
}

function boards(page, facts) {
  const measured = (name) => page.results(`measure:${name}:${page.arithmetic}`)?.[0];
  const rows = facts.boards.map((one) => {
    const job = page.job(`measure:${one.name}:${page.arithmetic}`), found = measured(one.name);
    const radio = make("input", { type: "radio", name: "board", id: `board-${one.name}`, checked: page.board === one.name, onchange: () => { page.board = one.name; page.show(); } });
    const fits = !found ? (job?.state === "running" ? "Measuring …" : "") : found.fits ? make("span", { className: "good" }, "fits") : make("span", { className: "bad" }, `does not fit: ${found.reasons.join("; ")}`);
    const cell = (label, ...children) => make("td", { "data-label": label }, children);
    return make("tr", {}, make("th", { scope: "row" }, make("label", {}, radio, ` ${one.title}`)),
      cell("memory", found ? `${KB(found.ram_bytes)} of ${KB(one.ram)}` : ""), cell("flash", found ? `${KB(found.flash_bytes)} of ${KB(one.flash)}` : ""),
      cell("time", found?.milliseconds ? `${number(found.milliseconds.typical)} ms` : ""), cell("", fits, found ? null : refusal(job)));
  });
  const kinds = [["fixed", `${ARITHMETIC.fixed} (small and fast)`], ["float32", `${ARITHMETIC.float32} (as in Python)`]];
  return make("div", { className: "card" }, make("h4", {}, "Which board?"),
    facts.missing.board && make("p", { id: "no-board", className: "hint" }, `What it needs on each board is counted once packages are installed: stop scare open, ${facts.missing.board}, and start it again. Exports work without.`),
    make("p", { className: "row" }, make("label", { htmlFor: "arithmetic" }, "Arithmetic"), select("arithmetic", kinds, page.arithmetic, (value) => { page.arithmetic = value; page.show(); })),
    make("div", { className: "scroll" }, make("table", {}, make("thead", {}, make("tr", {}, ["board", "memory", "flash", "time per value (estimate)", ""].map((text) => make("th", { scope: "col" }, text)))), make("tbody", {}, rows))));
}

// Measure every board once per calibrator and arithmetic.
function measure(page, { boards, missing }) {
  if (!page.trained || missing.board) return;
  const key = `${page.maker.ended} ${page.arithmetic}`;
  if (page.measuring === key) return;
  page.measuring = key;
  for (const { name } of boards) if (!page.job(`measure:${name}:${page.arithmetic}`)) page.start(`measure:${name}`, { arithmetic: page.arithmetic });
}

function targets(page, facts) {
  const board = facts.boards.find((one) => one.name === page.board);
  const items = facts.targets.map((target) => {
    const job = page.job(`export:${target.name}`);
    const button = job?.state === "done" ? save(page, job.about.file, "Save the zip")
      : make("button", { id: `export-${target.name}`, disabled: job?.state === "running", onclick: () => page.start(`export:${target.name}`, { arithmetic: page.arithmetic, board: target.in_c ? page.board : "" }) }, job?.state === "running" ? "Making the zip …" : "Make the zip");
    const again = job?.state === "done" && make("button", { id: `again-${target.name}`, "aria-label": `Make again: ${TITLES[target.name] ?? target.name}`, onclick: () => page.start(`export:${target.name}`, { arithmetic: page.arithmetic, board: target.in_c ? page.board : "" }) }, "Make again");
    return make("li", {}, make("b", {}, TITLES[target.name] ?? target.name), make("small", {}, target.about), make("div", { className: "row" }, button, again), refusal(job));
  });
  return make("div", { className: "card" }, make("h4", {}, "Firmware"), make("p", { className: "quiet" }, `For ${board.title}, in ${ARITHMETIC[page.arithmetic]}. Each zip contains a README that explains how to use it.`), make("ul", { className: "targets" }, items));
}

function proof(page, facts) {
  if (facts.missing.board) return [];
  const job = page.job("verify"), found = page.results("verify")?.[0];
  const outcome = found && (found.passed
    ? make("p", { className: "good", role: "status" }, `Passed: Python, C on this computer and C on ${found.made_with?.board ?? "the virtual board"} compute the same values.`)
    : make("p", { className: "bad", role: "status" }, "Failed: the values differ. ", job.messages.filter((text) => text.startsWith("Failed")).join(" ")));
  return make("div", { className: "card" }, make("h4", {}, "Proof"), make("p", {}, "Does the board compute the same values as this computer? The firmware is built and run on a virtual board, reading by reading."),
    make("div", { className: "row" }, make("button", { id: "verify", disabled: job?.state === "running", onclick: () => page.start("verify", { board: page.board }) }, job?.state === "running" ? "Verifying …" : "Verify"), found && save(page, "certificate.json", "The certificate (.json)")),
    job?.state === "running" && bar(null, "Verifying"), found ? outcome : refusal(job));
}

function commands(page) {
  const order = ["train", "report", "predict", "measure", "export", "verify"];
  const jobs = Object.values(page.state.jobs).filter((job) => job.state !== "running").sort((a, b) => order.indexOf(a.name.split(":")[0]) - order.indexOf(b.name.split(":")[0]) || a.began - b.began);
  const text = [`cd ${quote(page.state.folder)}`, ...jobs.flatMap((job) => job.commands)].join("\n");
  const button = make("button", { id: "copy", onclick: async () => { await navigator.clipboard.writeText(text); button.textContent = "Copied"; } }, "Copy");
  return make("details", { className: "card", open: true }, make("summary", {}, "The same steps as commands"), make("pre", { id: "command-list", tabIndex: 0 }, text), button);
}

const quote = (path) => (/^[\w@%+=:,./-]+$/.test(path) ? path : `'${path.replaceAll("'", "'\\''")}'`);
