// Step 1: files are dropped, and what their columns look like can be corrected.
import { upload } from "./api.js";
import { byId, bar, head, make, next, refresh, refusal, select } from "./dom.js";
import { day, duration } from "./duration.js";
import { lines } from "./pictures.js";
import { number } from "./pages/words.js";
import { clock } from "./clock.js";

const KINDS = [["sensor", "my sensor"], ["reference", "the reference instrument"]];
const ROLES = [
  ["target", "sensor to calibrate"], ["sensor", "sensor"], ["temperature", "temperature"], ["humidity", "humidity"],
  ["reference", "reference"], ["time", "time"], ["device", "device"], ["nothing", "not used"],
];
const REFERENCE_ROLES = ROLES.filter(([name]) => ["reference", "time", "nothing"].includes(name));
const coming = new Map(); // files on their way: share that has arrived, or why it was refused

export function showFiles(element, page, facts) {
  if (!element.firstChild) element.append(...frame(element, page));
  const { state } = page;
  const looks = Object.fromEntries(state.files.map((name) => [name, page.results(`look:${name}`)?.at(-1)]));
  refresh(byId("coming"), [...coming], () => [...coming].map(([name, told]) => arriving(name, told, page)));
  const jobs = state.files.map((name) => page.job(`look:${name}`)).map((job) => job && [job.state, job.ended, job.said]);
  const together = page.job("together");
  refresh(byId("files"), [state.files, jobs, together?.state, together?.ended, state.choices, Object.values(looks).map(Boolean)], () =>
    state.files.map((name) => card(name, looks[name], page, facts)));
  clock(byId("clock"), page);
  refresh(byId("after-1"), [state.choices.missing, state.files.length], () => [
    state.files.length > 0 && state.choices.missing && make("p", { className: "hint", role: "status" }, state.choices.missing),
    next(2, "Next: split", Boolean(state.config)),
  ]);
}

function frame(element, page) {
  const input = make("input", { id: "drop-input", type: "file", multiple: true, accept: ".csv,.gz,.tsv,.txt,.parquet", onchange: ({ target }) => { take([...target.files], page); target.value = ""; } });
  const drop = make("label", { className: "drop", htmlFor: "drop-input" }, make("b", {}, "Drop files here, or click to choose"), make("span", { className: "quiet" }, "CSV or Parquet, one or several; each file is one sensor box unless a column names the box"), input);
  for (const name of ["dragover", "dragleave", "drop"])
    drop.addEventListener(name, (event) => {
      event.preventDefault();
      drop.classList.toggle("over", name === "dragover");
      if (name === "drop") take([...event.dataTransfer.files], page);
    });
  const example = make("button", { id: "example", onclick: () => page.begin("example") }, "Try it with an example");
  return [
    ...head(1, "Your files", "What your sensor measured, and what the reference instrument measured at the same time."),
    drop,
    make("p", { className: "quiet" }, "No files yet? ", example),
    make("div", { id: "coming" }), make("div", { id: "files" }), make("div", { id: "clock" }), make("div", { id: "after-1" }),
  ];
}

async function take(files, page) {
  for (const file of files) {
    coming.set(file.name, 0);
    page.show();
    try {
      await upload(`sessions/${page.id}/files/${encodeURIComponent(file.name)}`, file, (share) => {
        coming.set(file.name, share);
        page.show();
      });
      coming.delete(file.name);
    } catch (error) {
      coming.set(file.name, error.message);
    }
    page.show();
  }
}

function arriving(name, told, page) {
  const refused = typeof told === "string";
  return make("div", { className: "card" }, make("b", {}, name), refused
    ? [make("p", { className: "problem", role: "alert" }, told), make("button", { onclick: () => { coming.delete(name); page.show(); } }, "Close")]
    : bar(told, `${name} is being copied`));
}

function card(name, look, page, { units }) {
  const { choices } = page.state, job = page.job(`look:${name}`);
  const kind = choices.sensors.includes(name) ? "sensor" : "reference";
  const title = make("div", { className: "row" },
    make("b", { className: "name" }, name),
    look && make("label", {}, "This is ", select(`kind-${name}`, KINDS, kind, (value) => page.say({ kinds: { [name]: value } }))),
    make("button", { id: `remove-${name}`, "aria-label": `Remove ${name}`, onclick: () => page.ask(`files/${encodeURIComponent(name)}`, "DELETE") }, "Remove"));
  if (!look) return make("div", { className: "card" }, title, refusal(job) && [refusal(job), dates(job, choices.said, page)] || make("p", { className: "quiet", role: "status" }, job?.state === "stopped" ? job.said.at(-1) : "looking at it …"));
  const together = page.job("together");
  return make("div", { className: "card" }, title, summary(look), isAbout(together, name) && refusal(together), columns(name, look, kind, page, units));
}

// Whether what was refused is said of a file.
export const isAbout = (job, name) => job?.state === "refused" && job.said.at(-1)?.startsWith(`files/${name}:`);

const DATES = [["", "choose"], ["day-first", "day first: 3/4 is 3 April"], ["month-first", "month first: 3/4 is 4 March"]];

function dates(job, said, page) {
  if (!job.said.at(-1)?.includes("--dates")) return null;
  return make("label", { htmlFor: "dates" }, "In your files dates are written ", select("dates", DATES, said.dates, (value) => page.say({ dates: value })));
}

function summary(look) {
  const period = `${day(Date.parse(look.first) / 1e3)} to ${day(Date.parse(look.last) / 1e3)}`;
  const parts = [`${number(look.rows)} rows`, period, look.step_seconds && `one every ${duration(look.step_seconds)}`, look.devices.length > 1 && `${look.devices.length} devices`];
  const odd = [
    look.gaps > 0 && `${number(look.gaps)} gaps, the longest ${look.longest_gap}`,
    look.duplicates > 0 && `${number(look.duplicates)} repeated times: the first of each is kept`,
    look.out_of_order > 0 && `${number(look.out_of_order)} rows out of order: they are sorted`,
  ];
  return [make("p", { className: "quiet" }, parts.filter(Boolean).join(" · ")), odd.some(Boolean) && make("p", { className: "odd" }, odd.filter(Boolean).join(" · "))];
}

function columns(name, look, kind, page, units) {
  const { choices } = page.state;
  const leads = kind === "reference" ? name === choices.reference_file : name === choices.sensors[0];
  if (!leads) return make("p", { className: "quiet" }, kind === "sensor" ? `Its columns are used as those of ${choices.sensors[0]}.` : "Only one reference is used.");
  const rows = look.columns.map((column) => row(name, column, look, kind, page, units));
  const heads = ["column", "this is", "over time", "unit", "missing", "from – to"].map((text) => make("th", { scope: "col" }, text));
  return make("div", { className: "scroll" }, make("table", {}, make("thead", {}, make("tr", {}, heads)), make("tbody", {}, rows)));
}

function row(name, column, look, kind, page, units) {
  const role = page.state.choices.roles[name][column.name];
  const roles = kind === "reference" ? REFERENCE_ROLES : ROLES.filter(([one]) => one !== "reference" || !page.state.choices.reference_file);
  const choose = select(`role-${name}-${column.name}`, roles, role, (value) => page.say({ roles: { [name]: { [column.name]: value } } }), { "aria-label": `What ${column.name} is` });
  const picture = look.pictures[column.name];
  const drawn = picture && lines([{ times: picture[0], values: picture[1], name: role }], { label: `${column.name} over time` });
  const sentinels = column.sentinels?.length ? make("small", { className: "odd" }, `${column.sentinels.slice(0, 3).join(", ")} looks like “no reading”`) : null;
  const cell = (label, ...children) => make("td", { "data-label": label }, children);
  return make("tr", { className: role === "nothing" ? "unused" : "" },
    make("th", { scope: "row" }, column.name), cell("this is", choose), cell("over time", drawn),
    cell("unit", column.unit == null ? null : unit(name, column.name, page, units)), cell("missing", column.missing_share == null ? "" : `${(100 * column.missing_share).toFixed(1)} %`),
    cell("from – to", column.minimum == null ? "" : `${number(column.minimum)} – ${number(column.maximum)}`, sentinels));
}

function unit(name, column, page, units) {
  const held = page.state.choices.units[name][column];
  const known = Object.entries({ "": "not said", ...units, ...(held in units || !held ? {} : { [held]: held }) });
  return select(`unit-${name}-${column}`, known, held, (value) => page.say({ units: { [name]: { [column]: value } } }), { "aria-label": `Unit of ${column}` });
}
