// Loads the fleet once, then applies what changes every second: tiles, table and device view.
import { DeviceView } from "./chart.js";
import { openModels } from "./models.js";
import { Table } from "./table.js";
import { moment, number } from "./pages/format.js";

const KEPT = 30; // values of a sparkline
const fleet = { devices: new Map(), units: {}, steps: {}, meanings: {}, now: 0 };
const table = new Table(fleet);
const view = new DeviceView(fleet);
const byId = (id) => document.getElementById(id);
let before;

function take([device, model, time, raw, calibrated, low, high, flags, heard, expected, watch, sparks]) {
  const known = fleet.devices.get(device);
  const values = sparks ?? known?.sparks ?? [];
  if (!sparks) {
    values.push(calibrated);
    if (values.length > KEPT) values.shift();
  }
  fleet.devices.set(device, { device, model, time, raw, calibrated, low, high, flags, heard, expected, watch, sparks: values });
}

function connect(on) {
  const pill = byId("connection");
  pill.textContent = on ? "live" : "disconnected, reconnecting";
  pill.className = `pill ${on ? "on" : "off"}`;
}

function tile(name, text) {
  document.querySelector(`[data-tile=${name}]`).textContent = text;
}

// One paragraph for each line, touched only when they change, because screen readers read out every change.
function showLines(id, lines) {
  const shown = byId(id);
  if ([...shown.children].map((one) => one.textContent).join("\n") === lines.join("\n")) return;
  shown.replaceChildren(...lines.map((line) => Object.assign(document.createElement("p"), { textContent: line })));
}

function showStatus({ counts, waits, waiting, refusals, problems, remarks, now }) {
  const all = [...fleet.devices.values()];
  const done = counts.calibrated + counts.without_value;
  if (before) tile("rate", number(Math.max(0, done - before.done) / Math.max(0.5, now - before.now)));
  before = { done, now };
  tile("devices", number(all.length));
  tile("flagged", number(all.filter((one) => one.calibrated == null).length));
  tile("wait", `${number(waits.p99 * 1e3)} ms`);
  tile("waiting", number(waiting));
  tile("rejected", number(counts.rejected));
  showLines("problems", Object.entries(problems).map(([about, text]) => `${about}: ${text}`));
  showLines("remarks", remarks);
  byId("reasons").replaceChildren(...refusals.map(({ time, source, reason }) => {
    const item = document.createElement("li");
    item.append(Object.assign(document.createElement("time"), { textContent: moment(time) }), ` ${source}: ${reason}`);
    return item;
  }));
}

function route() {
  const name = decodeURIComponent(location.hash.slice(1));
  byId("fleet").hidden = Boolean(name);
  byId("device").hidden = !name;
  if (name) view.open(name);
  else {
    view.close();
    table.update();
  }
}

async function begin() {
  openModels();
  const answer = await fetch("v1/devices");
  const snapshot = await answer.json();
  Object.assign(fleet, { units: snapshot.units, steps: snapshot.steps, meanings: snapshot.flags, now: snapshot.now });
  snapshot.devices.forEach(take);
  route();
  addEventListener("hashchange", route);
  const events = new EventSource(`v1/events?since=${snapshot.change}`);
  events.onopen = () => connect(true);
  events.onerror = () => connect(false);
  events.onmessage = ({ data }) => {
    const news = JSON.parse(data);
    fleet.now = news.now;
    news.devices.forEach(take);
    showStatus(news);
    if (!view.name) table.update();
    else if (news.devices.some(([device]) => device === view.name)) view.update();
  };
}

begin();
