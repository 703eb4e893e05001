// How far the sensor's clock seems to be off, as two curves that slide; corrected only if the person asks for it.
import { make, refresh, refusal } from "./dom.js";
import { day, hours } from "./duration.js";
import { isAbout } from "./files.js";
import { lines } from "./charts.js";

const MAX_SHIFT = 14 * 3600, WIDTH = 900, HEIGHT = 120;

export function clock(element, page) {
  const job = page.job("together"), found = page.results("together")?.[0], { selections } = page.state.setup;
  refresh(element, [job?.state, job?.messages, page.of("together"), selections.apply_offset], () => {
    if (job?.state === "refused") return page.state.files.some((name) => isAbout(job, name)) ? [] : refusal(job);
    if (!found) return job?.state === "running" ? make("p", { className: "quiet", role: "status" }, "Comparing the clocks of sensor and reference …") : [];
    return found.clock ? draw(found.clock, selections.apply_offset, page) : [];
  });
}

const shifted = (seconds) => `${hours(seconds)} ${seconds > 0 ? "later" : "earlier"}`;

function draw(found, applied, page) {
  const [times, values] = found.sensor, [stamps, truths] = found.reference;
  const from = Math.min(times[0], stamps[0]), to = Math.max(times.at(-1), stamps.at(-1));
  // Of a long series only a part is shown, so that a shift can be seen.
  const span = Math.min(to - from, Math.max(40 * Math.abs(found.seconds), 3 * 86400)), middle = (from + to) / 2;
  const window = { from: middle - span / 2, to: middle + span / 2, width: WIDTH, height: HEIGHT, together: found.comparable };
  const picture = lines([{ times: stamps, values: truths, name: "reference" }, { times, values, name: "target" }], { ...window, label: "Sensor and reference over time" });
  const moving = picture.lastChild;
  const best = Math.round(found.seconds), start = applied ? best : 0;
  const label = make("output", { id: "slid", htmlFor: "slide" });
  const slide = (seconds) => {
    moving.setAttribute("transform", `translate(${(WIDTH * seconds) / span} 0)`);
    label.textContent = seconds ? `sensor ${shifted(seconds)}` : "as in the files";
  };
  const range = make("input", { id: "slide", type: "range", min: -MAX_SHIFT, max: MAX_SHIFT, step: 300, value: start, oninput: ({ target }) => slide(Number(target.value)) });
  slide(start);
  const check = make("input", { id: "apply-offset", type: "checkbox", checked: applied, onchange: ({ target }) => page.select({ apply_offset: target.checked }) });
  const off = found.is_off && best !== 0;
  return make("div", { className: "card" }, make("h4", {}, "Do the clocks agree?"), make("p", {}, sentence(found, best)), picture,
    make("div", { className: "row" }, make("label", { htmlFor: "slide" }, "Slide the sensor"), range, label,
      best !== 0 && make("button", { id: "best-fit", onclick: () => { range.value = best; slide(best); } }, "Best fit")),
    found.is_off && reasons(found, page),
    (off || applied) && make("label", { className: "check" }, check, ` Correct the clock of ${found.device} before training`));
}

function sentence(found, best) {
  const better = `(correlation ${found.correlation.toFixed(2)} instead of ${found.correlation_at_zero?.toFixed(2) ?? "none"})`;
  if (found.is_weak) return `Sensor and reference hardly correlate (at best ${found.correlation.toFixed(2)}), so their clocks cannot be compared. Do they measure the same air?`;
  if (found.reset) return `The sensor's clock was set about ${day(Date.parse(found.reset.time) / 1e3)}: the curves fit best with the sensor ${told(found.reset.before)} before and ${told(found.reset.after)} after. Correct the file before training.`;
  if (found.drift_seconds_per_day) return `The sensor's clock drifts by ${hours(found.drift_seconds_per_day)} a day. Correct the file before training.`;
  if (found.is_off) return `The curves fit best with the sensor ${shifted(best)} ${better}. Is one of the clocks wrong, or in another time zone?`;
  return `The clocks agree (correlation ${(found.correlation_at_zero ?? found.correlation).toFixed(2)}).`;
}

const told = (seconds) => (Math.abs(seconds) < 30 ? "as it is" : shifted(seconds));

// What may be behind a shift, each with a button that states it, and what is in doubt.
function reasons(found, page) {
  const { setup } = page.state, files = { sensor: setup.sensors[0], reference: setup.reference_file };
  const zones = Object.entries(files).map(([kind, file]) => [kind, file, found[`${kind}_time_zone`]]).filter(([, , zone]) => zone);
  const places = zones.filter(([, , zone]) => !zone.startsWith("Etc/"));
  const choices = (places.length ? places : zones).map(([kind, file, zone]) => make("button", { id: `zone-of-${kind}`, onclick: () => page.select({ tables: { [file]: { timezone: zone } } }) }, `The ${kind}'s times are in ${zone}`));
  if (found.may_stamp_beginning) choices.push(make("button", { id: "stamp-begin", onclick: () => page.select({ stamp: "begin" }) }, "The reference's times are the beginning of each average"));
  const doubts = [
    found.at_end_of_search && "A larger shift may fit better still: compare the dates of the two files.",
    found.as_good_seconds.length > 0 && `As a day resembles the next, the sensor ${found.as_good_seconds.map(shifted).join(" or ")} fits as well.`,
  ];
  return [choices.length > 0 && make("p", { className: "row" }, "This would explain it: ", choices), doubts.some(Boolean) && make("p", { className: "odd" }, doubts.filter(Boolean).join(" "))];
}
