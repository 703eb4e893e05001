// The table of the fleet: only visible rows are in the page, so ten thousand devices scroll smoothly.
import { age, figure, number } from "./pages/format.js";
import { flagNames } from "./flags.js";

const HEIGHT = 36;
const SPARE = 6; // rows above and below the visible ones
const SILENT = 180, SILENT_STEPS = 3; // seconds at least, and steps of the device's model
const STATES = ["cannot be judged", "fine", "look", "re-collocate"];
const SVG = "http://www.w3.org/2000/svg";

const keys = {
  device: (one) => one.device,
  calibrated: (one) => one.calibrated ?? -Infinity,
  raw: (one) => one.raw ?? -Infinity,
  flags: (one) => one.flags,
  heard: (one) => -one.heard,
  expected: (one) => one.expected ?? -Infinity,
  watch: (one) => STATES.indexOf(one.watch),
};
const byName = new Intl.Collator("en", { numeric: true }).compare;

// Seconds after which a device is shown as silent.
export const silentAfter = (fleet, model) => Math.max(SILENT, SILENT_STEPS * (fleet.steps[model] ?? 0));

export class Table {
  constructor(fleet) {
    this.fleet = fleet;
    this.rows = document.getElementById("rows");
    this.space = document.getElementById("space");
    this.sort = { key: "device", up: true };
    this.words = "";
    this.shown = [];
    this.pool = [];
    this.rows.addEventListener("scroll", () => this.draw());
    addEventListener("resize", () => this.draw());
    for (const head of document.querySelectorAll("[data-sort]")) head.addEventListener("click", () => this.sortBy(head.dataset.sort));
    document.getElementById("filter").addEventListener("input", (event) => this.find(event.target.value));
  }

  sortBy(key) {
    this.sort = { key, up: this.sort.key === key ? !this.sort.up : key === "device" };
    for (const head of document.querySelectorAll("[data-sort]")) {
      if (head.dataset.sort === key) head.setAttribute("aria-sort", this.sort.up ? "ascending" : "descending");
      else head.removeAttribute("aria-sort");
    }
    this.update();
  }

  find(words) {
    this.words = words.trim().toLowerCase();
    this.rows.scrollTop = 0;
    this.update();
  }

  matches(one) {
    if (!this.words) return true;
    const flags = flagNames(one.flags, this.fleet.meanings).join(" ");
    return `${one.device} ${one.model} ${flags} ${one.watch ?? ""}`.toLowerCase().includes(this.words);
  }

  update() {
    const key = keys[this.sort.key], sign = this.sort.up ? 1 : -1;
    const compare = this.sort.key === "device" ? byName : (a, b) => a - b;
    this.shown = [...this.fleet.devices.values()].filter((one) => this.matches(one));
    this.shown.sort((a, b) => sign * compare(key(a), key(b)) || byName(a.device, b.device));
    this.space.style.height = `${this.shown.length * HEIGHT}px`;
    document.getElementById("found").textContent = this.words ? `${this.shown.length} of ${this.fleet.devices.size}` : "";
    document.getElementById("nobody").hidden = this.fleet.devices.size > 0;
    this.draw();
  }

  draw() {
    const first = Math.max(0, Math.floor(this.rows.scrollTop / HEIGHT) - SPARE);
    const last = Math.min(this.shown.length, Math.ceil((this.rows.scrollTop + this.rows.clientHeight) / HEIGHT) + SPARE);
    while (this.pool.length < last - first) this.pool.push(this.makeRow());
    this.pool.forEach((row, index) => {
      row.hidden = first + index >= last;
      if (!row.hidden) this.fill(row, this.shown[first + index], first + index);
    });
  }

  makeRow() {
    const row = document.createElement("a");
    row.className = "row";
    row.setAttribute("role", "row");
    for (const name of ["name", "value", "unit", "between", "raw", "flagged", "expected", "watch", "heard"]) {
      const cell = document.createElement("span");
      cell.className = name;
      cell.setAttribute("role", "cell");
      row.append(cell);
    }
    const picture = document.createElementNS(SVG, "svg");
    picture.setAttribute("viewBox", "0 0 100 26");
    picture.setAttribute("preserveAspectRatio", "none");
    picture.setAttribute("aria-hidden", "true");
    picture.append(document.createElementNS(SVG, "polyline"));
    row.append(picture);
    this.space.append(row);
    return row;
  }

  fill(row, one, place) {
    const [name, value, unit, between, raw, flagged, expected, watch, heard, picture] = row.children;
    row.style.top = `${place * HEIGHT}px`;
    row.href = `#${encodeURIComponent(one.device)}`;
    name.textContent = one.device;
    value.textContent = figure(one.calibrated);
    unit.textContent = this.fleet.units[one.model] ?? "";
    between.textContent = one.low == null ? "" : `${number(one.low)} – ${number(one.high)}`;
    raw.textContent = number(one.raw);
    flagged.textContent = flagNames(one.flags, this.fleet.meanings).join(", ").toLowerCase().replaceAll("_", "-");
    expected.textContent = one.expected == null ? "–" : `× ${Number(one.expected.toPrecision(2))}`;
    watch.textContent = one.watch;
    watch.className = `watch ${one.watch}`;
    heard.textContent = age(Math.max(0, this.fleet.now - one.heard));
    row.classList.toggle("silent", this.fleet.now - one.heard > silentAfter(this.fleet, one.model));
    picture.firstChild.setAttribute("points", points(one.sparks));
  }
}

function points(values) {
  const known = values.map((value, index) => [index, value]).filter(([, value]) => value != null);
  const numbers = known.map(([, value]) => value);
  const low = Math.min(...numbers), high = Math.max(...numbers), width = Math.max(1, values.length - 1);
  const height = (value) => (high > low ? 24 - (22 * (value - low)) / (high - low) : 13);
  return known.map(([index, value]) => `${((100 * index) / width).toFixed(1)},${height(value).toFixed(1)}`).join(" ");
}
