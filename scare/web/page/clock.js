// How far the sensor's clock seems to be off, as two curves that slide; corrected only if the person asks for it.
import { make, refresh, refusal } from "./dom.js";
import { duration } from "./duration.js";
import { isAbout } from "./files.js";
import { lines } from "./pictures.js";

const MAX_SHIFT = 7200, WIDTH = 900, HEIGHT = 120;

export function clock(element, page) {
  const job = page.job("together"), found = page.results("together")?.[0], { selections } = page.state.setup;
  refresh(element, [job?.state, job?.ended, job?.messages, Boolean(found), selections.apply_offset], () => {
    if (job?.state === "refused") return page.state.files.some((name) => isAbout(job, name)) ? [] : refusal(job);
    if (!found) return job?.state === "running" ? make("p", { className: "quiet", role: "status" }, "Comparing the clocks of sensor and reference …") : [];
    return found.clock ? draw(found.clock, selections.apply_offset, page) : [];
  });
}

function draw(found, applied, page) {
  const [times, values] = found.sensor, [stamps, truths] = found.reference;
  const from = Math.min(times[0], stamps[0]), to = Math.max(times.at(-1), stamps.at(-1));
  // Of a long series only a part is shown, so that a shift can be seen.
  const span = Math.min(to - from, Math.max(40 * Math.abs(found.seconds), 3 * 86400)), middle = (from + to) / 2;
  const window = { from: middle - span / 2, to: middle + span / 2, width: WIDTH, height: HEIGHT };
  const picture = lines([{ times: stamps, values: truths, name: "reference" }, { times, values, name: "target" }], { ...window, label: "Sensor and reference over time" });
  const moving = picture.lastChild;
  const best = Math.round(found.seconds), start = applied ? best : 0;
  const label = make("output", { id: "slid", htmlFor: "slide" });
  const slide = (seconds) => {
    moving.setAttribute("transform", `translate(${(WIDTH * seconds) / span} 0)`);
    label.textContent = seconds ? `sensor ${duration(Math.abs(seconds))} ${seconds > 0 ? "later" : "earlier"}` : "as in the files";
  };
  const range = make("input", { id: "slide", type: "range", min: -MAX_SHIFT, max: MAX_SHIFT, step: 60, value: start, oninput: ({ target }) => slide(Number(target.value)) });
  slide(start);
  const off = Math.abs(best) > 0;
  const words = off
    ? `The curves fit best with the sensor ${duration(Math.abs(best))} ${best > 0 ? "later" : "earlier"} (correlation ${found.correlation.toFixed(2)} instead of ${found.correlation_at_zero?.toFixed(2) ?? "none"}). Is one of the clocks wrong, or in another time zone?`
    : `The clocks agree (correlation ${found.correlation.toFixed(2)}).`;
  const check = make("input", { id: "apply-offset", type: "checkbox", checked: applied, onchange: ({ target }) => page.select({ apply_offset: target.checked }) });
  return make("div", { className: "card" }, make("h4", {}, "Do the clocks agree?"), make("p", {}, words), picture,
    make("div", { className: "row" }, make("label", { htmlFor: "slide" }, "Slide the sensor"), range, label,
      off && make("button", { onclick: () => { range.value = best; slide(best); } }, "Best fit")),
    off && make("label", { className: "check" }, check, ` Correct the clock of ${found.device} before training`));
}
