// Step 1: files are uploaded, and the guessed roles of their columns can be corrected.
import { upload } from "./api.js";
import { byId, bar, fold, head, inPage, make, next, refresh, refusal, select } from "./dom.js";
import { day, duration } from "./duration.js";
import { lines } from "./charts.js";
import { number } from "./pages/format.js";
import { clock } from "./clock.js";
import { written, zones } from "./file_options.js";

const KINDS = [["sensor", "my sensor"], ["reference", "the reference instrument"]];
const ROLES = [
  ["target", "sensor to calibrate"], ["sensor", "sensor"], ["temperature", "temperature"], ["humidity", "humidity"],
  ["reference", "reference"], ["time", "time"], ["device", "device"], ["nothing", "not used"],
];
const REFERENCE_ROLES = ROLES.filter(([name]) => ["reference", "time", "nothing"].includes(name));
const FEW_UNUSED = 4; // columns; more are folded away
const uploads = new Map(); // by file name: the share that has arrived, or why it was refused

export function showFiles(element, page, facts) {
  if (!element.firstChild) element.append(...frame(page, facts));
  const { state } = page;
  const previews = Object.fromEntries(state.files.map((name) => [name, page.results(`look:${name}`)?.at(-1)]));
  refresh(byId("uploads"), [...uploads], () => [...uploads].map(([name, progress]) => uploadCard(name, progress, page)));
  const jobs = state.files.map((name) => page.job(`look:${name}`)).map((job) => job && [job.state, job.ended, job.messages]);
  const together = page.job("together");
  refresh(byId("files"), [state.files, jobs, together?.state, together?.ended, state.setup, state.files.map((name) => page.of(`look:${name}`))], () =>
    state.files.map((name) => card(name, previews[name], page, facts)));
  clock(byId("clock"), page);
  refresh(byId("after-1"), [state.setup.missing, state.files.length], () => [
    state.files.length > 0 && state.setup.missing && make("p", { className: "hint", role: "status" }, state.setup.missing),
    next(2, "Next: split", Boolean(state.config)),
  ]);
}

function frame(page, facts) {
  const input = make("input", { id: "drop-input", type: "file", multiple: true, accept: accepted(facts), onchange: ({ target }) => { uploadFiles([...target.files], page); target.value = ""; } });
  const drop = make("label", { className: "drop", htmlFor: "drop-input" }, make("b", {}, "Drop files here, or click to choose"), make("span", { className: "quiet" }, "CSV, Excel or Parquet, also zipped, one or several. Each file is one sensor box, unless a column names the box."), input);
  for (const name of ["dragover", "dragleave", "drop"])
    drop.addEventListener(name, (event) => {
      event.preventDefault();
      drop.classList.toggle("over", name === "dragover");
      if (name === "drop") uploadFiles([...event.dataTransfer.files], page);
    });
  const example = make("button", { id: "example", onclick: () => page.start("example") }, "Try it with an example");
  return [
    ...head(1, "Your files", "What your sensor measured, and what the reference instrument measured at the same time."),
    drop,
    make("p", { className: "quiet" }, "No files yet? ", example),
    zones(facts), make("div", { id: "uploads" }), make("div", { id: "files" }), make("div", { id: "clock" }), make("div", { id: "after-1" }),
  ];
}

// A browser looks at the last part of a name only.
export const accepted = ({ suffixes }) => [...new Set(suffixes.map((one) => `.${one.split(".").at(-1)}`))].join(",");

async function uploadFiles(files, page) {
  for (const file of files) {
    uploads.set(file.name, 0);
    page.show();
    try {
      await upload(`sessions/${page.id}/files/${encodeURIComponent(file.name)}`, file, (share) => {
        uploads.set(file.name, share);
        page.show();
      });
      uploads.delete(file.name);
    } catch (error) {
      uploads.set(file.name, error.message);
    }
    page.show();
  }
}

function uploadCard(name, progress, page) {
  const refused = typeof progress === "string";
  return make("div", { className: "card" }, make("b", {}, name), refused
    ? [make("p", { className: "problem", role: "alert" }, progress), make("button", { onclick: () => { uploads.delete(name); page.show(); } }, "Close")]
    : bar(progress, `Copying ${name}`));
}

function card(name, look, page, facts) {
  const { setup } = page.state, job = page.job(`look:${name}`);
  const kind = setup.sensors.includes(name) ? "sensor" : "reference";
  const title = make("div", { className: "row" },
    make("b", { className: "name" }, name),
    look && make("label", {}, "This is ", select(`kind-${name}`, KINDS, kind, (value) => page.select({ kinds: { [name]: value } }))),
    make("button", { id: `remove-${name}`, "aria-label": `Remove ${name}`, onclick: () => page.ask(`files/${encodeURIComponent(name)}`, "DELETE") }, "Remove"));
  const refused = refusal(job);
  if (refused || !look) return make("div", { className: "card" }, title, refused ? [refused, written(name, "", true, page, facts)] : make("p", { className: "quiet", role: "status" }, job?.state === "stopped" ? job.messages.at(-1) : "Reading the file …"));
  const together = page.job("together"), leads = kind === "reference" ? name === setup.reference_file : name === setup.sensors[0];
  return make("div", { className: "card" }, title, summary(look), isAbout(together, name) && refusal(together),
    leads && written(name, kind, false, page, facts), leads ? columns(name, look, kind, page, facts.units) : make("p", { className: "quiet" }, kind === "sensor" ? `It is read like ${setup.sensors[0]}.` : "Not used: there is another reference file."));
}

// Whether a job was refused because of this file.
export const isAbout = (job, name) => job?.state === "refused" && job.messages.at(-1)?.startsWith(`files/${name}:`);

function summary(look) {
  const period = `${day(Date.parse(look.first) / 1e3)} to ${day(Date.parse(look.last) / 1e3)}`;
  const parts = [`${number(look.rows)} rows`, period, look.step_seconds && `one every ${duration(look.step_seconds)}`, look.devices.length > 1 && `${look.devices.length} devices`];
  const odd = [
    look.gaps > 0 && `${number(look.gaps)} gaps, the longest ${look.longest_gap}`,
    look.duplicates > 0 && `${number(look.duplicates)} repeated times (the first row of each is kept)`,
    look.out_of_order > 0 && `${number(look.out_of_order)} rows out of order (they will be sorted)`,
  ];
  const notes = (look.notes ?? []).map((text) => make("li", {}, inPage(text)));
  return [make("p", { className: "quiet" }, parts.filter(Boolean).join(" · ")), odd.some(Boolean) && make("p", { className: "odd" }, odd.filter(Boolean).join(" · ")),
    notes.length > 0 && make("ul", { className: "notes" }, notes)];
}

function columns(name, look, kind, page, units) {
  const roles = page.state.setup.roles[name], unused = look.columns.filter((column) => roles[column.name] === "nothing");
  const folded = unused.length > FEW_UNUSED ? unused : [];
  const table = (columns) => {
    const heads = ["column", "role", "over time", "unit", "missing", "range"].map((text) => make("th", { scope: "col" }, text));
    const rows = columns.map((column) => row(name, column, look, kind, page, units));
    return make("div", { className: "scroll" }, make("table", {}, make("thead", {}, make("tr", {}, heads)), make("tbody", {}, rows)));
  };
  return [table(look.columns.filter((column) => !folded.includes(column))),
    folded.length > 0 && fold(`unused-${name}`, `${folded.length} columns that are not used`, false, table(folded))];
}

function row(name, column, look, kind, page, units) {
  const role = page.state.setup.roles[name][column.name];
  const roles = kind === "reference" ? REFERENCE_ROLES : ROLES.filter(([one]) => one !== "reference" || !page.state.setup.reference_file);
  const choose = select(`role-${name}-${column.name}`, roles, role, (value) => page.select({ roles: { [name]: { [column.name]: value } } }), { "aria-label": `Role of ${column.name}` });
  const picture = look.pictures[column.name];
  const drawn = picture && lines([{ times: picture[0], values: picture[1], name: role }], { label: `${column.name} over time` });
  const sentinels = column.sentinels?.length ? make("small", { className: "odd" }, `${column.sentinels.slice(0, 3).join(", ")} probably means “no reading”`) : null;
  const cell = (label, ...children) => make("td", { "data-label": label }, children);
  return make("tr", { className: role === "nothing" ? "unused" : "" },
    make("th", { scope: "row" }, column.name, column.why && make("small", {}, column.why)), cell("role", choose), cell("over time", drawn),
    cell("unit", column.unit == null ? null : unit(name, column.name, page, units)), cell("missing", column.missing_share == null ? "" : `${(100 * column.missing_share).toFixed(1)} %`),
    cell("range", column.minimum == null ? "" : `${number(column.minimum)} – ${number(column.maximum)}`, sentinels));
}

function unit(name, column, page, units) {
  const current = page.state.setup.units[name][column];
  const known = Object.entries({ "": "unknown", ...units, ...(current in units || !current ? {} : { [current]: current }) });
  return select(`unit-${name}-${column}`, known, current, (value) => page.select({ units: { [name]: { [column]: value } } }), { "aria-label": `Unit of ${column}` });
}
