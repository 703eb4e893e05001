// The device view: raw and calibrated values with their interval over time, and the flags of the rows.
import { moment, number } from "./pages/format.js";

const colour = (name) => getComputedStyle(document.documentElement).getPropertyValue(`--${name}`).trim();
const byId = (id) => document.getElementById(id);
const HEIGHT = 340;
const DAY = "\n{D} {MMM} {YYYY}";
const STAMPS = [
  [86400, "{D} {MMM}", "\n{YYYY}", null, null, null, null, null, 1],
  [60, "{HH}:{mm}", DAY, null, "\n{D} {MMM}", null, null, null, 1],
  [1, "{HH}:{mm}:{ss}", DAY, null, "\n{D} {MMM}", null, null, null, 1],
];

// What a box says of the model file that it runs.
const onBox = ({ runs, state, asked }) =>
  `; on the box ${runs ? `version ${runs.slice(0, 8)}` : "an unknown version"}${state === "other" ? ", not the newest" : ""} (asked ${moment(asked)} UTC)`;

export class DeviceView {
  constructor(fleet) {
    this.fleet = fleet;
    this.name = "";
    this.zoomed = false;
    byId("whole").addEventListener("click", () => this.showAll());
    matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => this.redraw());
    addEventListener("resize", () => this.chart?.setSize({ width: byId("chart").clientWidth, height: HEIGHT }));
  }

  async open(name) {
    this.name = name;
    this.zoomed = false;
    byId("name").textContent = name;
    await this.update();
  }

  close() {
    this.name = "";
    this.chart?.destroy();
    this.chart = undefined;
  }

  async update() {
    const name = this.name;
    const answer = await fetch(`v1/devices/${encodeURIComponent(name)}`);
    if (name !== this.name) return;
    if (!answer.ok) {
      byId("facts").textContent = (await answer.json()).error;
      return;
    }
    this.found = await answer.json();
    this.showFacts();
    const flagged = this.found.raw.map((value, index) => (this.found.flags[index] ? value : null));
    this.values = [this.found.time, this.found.raw, this.found.low, this.found.high, this.found.calibrated, flagged];
    if (this.chart) this.chart.setData(this.values, !this.zoomed);
    else this.redraw();
  }

  showFacts() {
    const { time, calibrated, low, high, raw, unit, model, flags, flag_names: names, box, correction, now } = this.found;
    const last = time.length - 1;
    const between = low[last] == null ? "" : ` (${number(low[last])} – ${number(high[last])})`;
    byId("facts").textContent =
      `${moment(time[last])} UTC: calibrated ${number(calibrated[last])}${between} ${unit}, raw ${number(raw[last])}; model ${model}${box ? onBox(box) : ""}${correctedWhen(correction, unit, now)}`;
    byId("chart").setAttribute("aria-label", `Raw and calibrated values of ${this.name}, the last ${time.length} readings`);
    const list = byId("flags");
    const counts = new Map();
    for (const one of flags) for (const name of names[one] ?? []) counts.set(name, (counts.get(name) ?? 0) + 1);
    const words = Object.fromEntries(Object.values(this.fleet.meanings));
    list.replaceChildren(...[...counts].flatMap(([name, count]) => [
      Object.assign(document.createElement("dt"), { textContent: name.toLowerCase().replaceAll("_", "-") }),
      Object.assign(document.createElement("dd"), { textContent: `${count} of ${flags.length} rows: ${words[name] ?? ""}` }),
    ]));
    if (!counts.size) list.replaceChildren(Object.assign(document.createElement("dd"), { textContent: "No flags in these rows." }));
  }

  redraw() {
    if (!this.name || !this.values) return;
    this.chart?.destroy();
    const axis = (label) => ({ label, stroke: colour("quiet"), grid: { stroke: colour("grid") }, ticks: { stroke: colour("grid") } });
    const line = (label, name) => ({ label, stroke: colour(name), width: 1.5, points: { show: false }, value: (_, value) => number(value) });
    const edge = (label) => ({ ...line(label, "calibrated"), width: 0 });
    const dots = { ...line("flagged", "fair"), paths: () => null, points: { show: true, size: 5, fill: colour("fair") } };
    this.chart = new uPlot({
      width: byId("chart").clientWidth,
      height: HEIGHT,
      scales: { x: { time: true } },
      axes: [{ ...axis(""), values: STAMPS }, axis(this.found.unit)],
      series: [{ label: "time", value: (_, value) => (value == null ? "–" : moment(value)) }, line("raw", "raw"), edge("low"), edge("high"), line("calibrated", "calibrated"), dots],
      bands: [{ series: [3, 2], fill: `${colour("calibrated")}2b` }],
      tzDate: (seconds) => uPlot.tzDate(new Date(seconds * 1e3), "Etc/UTC"),
      hooks: { setSelect: [() => { this.zoomed = true; }] },
    }, this.values, byId("chart"));
    this.chart.over.addEventListener("dblclick", () => { this.zoomed = false; });
  }

  showAll() {
    this.zoomed = false;
    this.chart?.setData(this.values, true);
  }
}

// When the correction of this box was last compared with anything, and how uncertain it was then.
function correctedWhen({ compared, uncertainty }, unit, now) {
  const parts = [];
  if (compared != null) parts.push(`last beside another instrument ${moment(compared)} UTC, ${Math.max(0, Math.floor((now - compared) / 86400))} days ago`);
  if (uncertainty != null) parts.push(`uncertainty of the calibration ${number(uncertainty)} ${unit}`.trim());
  return parts.length ? `; ${parts.join(", ")}` : "";
}
