// Series drawn as lines: small ones as SVG, large ones with uPlot.
import { number } from "./pages/format.js";
import { make } from "./dom.js";

const SVG = "http://www.w3.org/2000/svg";
export const colour = (name) => getComputedStyle(document.documentElement).getPropertyValue(`--${name}`).trim();

function shape(tag, properties) {
  const element = document.createElementNS(SVG, tag);
  for (const [name, value] of Object.entries(properties)) element.setAttribute(name, value);
  return element;
}

// Lines of [times, values], broken where a value is missing, on a common time axis; `together` on one scale.
export function lines(series, { width = 300, height = 40, from, to, together = false, label = "" } = {}) {
  const picture = shape("svg", { viewBox: `0 0 ${width} ${height}`, preserveAspectRatio: "none", role: "img", "aria-label": label });
  for (const { times, values, name } of series) {
    const known = (together ? series.flatMap((one) => one.values) : values).filter((one) => one != null);
    const low = Math.min(...known), high = Math.max(...known);
    const start = from ?? times[0], end = to ?? times.at(-1);
    const x = (time) => (width * (time - start)) / Math.max(1, end - start);
    const y = (value) => (high > low ? height - 3 - ((height - 6) * (value - low)) / (high - low) : height / 2);
    let path = "", pen = false;
    values.forEach((value, index) => {
      if (value != null) path += `${pen ? "L" : "M"}${x(times[index]).toFixed(1)} ${y(value).toFixed(1)}`;
      pen = value != null;
    });
    picture.append(shape("path", { d: path, class: name }));
  }
  return picture;
}

const DAY = "\n{D} {MMM} {YYYY}";
const STAMPS = [
  [86400, "{D} {MMM}", "\n{YYYY}", null, null, null, null, null, 1],
  [60, "{HH}:{mm}", DAY, null, "\n{D} {MMM}", null, null, null, 1],
  [1, "{HH}:{mm}:{ss}", DAY, null, "\n{D} {MMM}", null, null, null, 1],
];

// A chart of several series; a series with the scale "right" has its axis on the right side.
export function chart(element, data, series, { time = true, height = 260, unit = "", right = "", last, label = "" } = {}) {
  element.replaceChildren();
  element.setAttribute("role", "img");
  element.setAttribute("aria-label", label);
  const axis = (label, more = {}) => ({ label, stroke: colour("quiet"), grid: { stroke: colour("grid"), width: 1 }, ticks: { stroke: colour("grid") }, ...more });
  const axes = [axis(time ? "" : "round", time ? { values: STAMPS } : { incrs: [1, 2, 5, 10, 20, 50, 100, 200] }), axis(unit)];
  if (right) axes.push(axis(right, { side: 1, scale: "right", grid: { show: false } }));
  const plot = new uPlot({
    width: Math.max(200, element.clientWidth),
    height,
    scales: { x: last ? { time, range: [1, Math.max(2, last)] } : { time } },
    axes,
    cursor: { drag: { x: false, y: false } },
    legend: { show: series.length > 1 },
    series: [
      { label: time ? "time" : "round" },
      ...series.map(({ label, name, scale }) => ({ label, scale: scale ?? "y", stroke: colour(name), width: 1.5, spanGaps: false, points: { show: data[0].length < 3 }, value: (_, value) => number(value) })),
    ],
    tzDate: (seconds) => uPlot.tzDate(new Date(seconds * 1e3), "Etc/UTC"),
  }, data, element);
  new ResizeObserver(() => plot.setSize({ width: Math.max(200, element.clientWidth), height })).observe(element);
  return plot;
}

export const meter = (share, name) => {
  const inner = make("i", { className: name });
  inner.style.width = `${Math.max(1, Math.min(100, 100 * share))}%`;
  const bar = make("span", { className: "meter", "aria-hidden": "true" }, inner);
  return share > 1 ? [bar, make("small", { className: "beyond" }, "longer than shown ▸")] : bar;
};
