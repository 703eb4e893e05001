(() => {
  "use strict";
  const data = JSON.parse(document.getElementById("data").textContent);
  const root = document.documentElement;
  const byId = (id) => document.getElementById(id);
  let charts = [];
  let shown = 0;

  const colour = (name) => getComputedStyle(root).getPropertyValue(`--${name}`).trim();
  const faded = (name) => colour(name) + "66";

  function unpack({ bits, low, high, data: text }) {
    const bytes = Uint8Array.from(atob(text), (letter) => letter.charCodeAt(0));
    const numbers = bits === 32 ? new Uint32Array(bytes.buffer) : new Uint16Array(bytes.buffer);
    const top = 2 ** bits - 2;
    return Array.from(numbers, (number) => (number > top ? null : low + (number / top) * (high - low)));
  }

  const short = (value) => (value == null ? "–" : Number(value.toPrecision(3)).toLocaleString("en"));
  const moment = (value) => (value == null ? "–" : new Date(value * 1e3).toISOString().slice(0, 16).replace("T", " "));

  function axis(label, more = {}) {
    return {
      label, labelSize: 22, labelFont: "13px system-ui", font: "12px system-ui", stroke: colour("quiet"),
      grid: { stroke: colour("grid"), width: 1 }, ticks: { stroke: colour("grid"), width: 1 }, size: 52, ...more,
    };
  }

  const level = (label) => axis(label, { size: 32 });

  const line = (label, name, more = {}) => ({
    label, stroke: colour(name), width: 1.5, points: { show: false }, value: (_, value) => short(value), ...more,
  });
  const dots = (label, name) => ({
    label, stroke: colour(name), paths: () => null, value: (_, value) => short(value),
    points: { show: true, size: 4, width: 0, fill: faded(name), stroke: faded(name) },
  });
  const marked = (label, name, more) => line(label, name, {
    width: 2, spanGaps: true, points: { show: true, size: 6, fill: colour(name), stroke: colour(name) }, ...more,
  });
  const dashed = (name) => (name === "raw" ? { dash: [6, 4] } : {}); // told apart in black and white, too

  function draw(id, options, values, screenHeight) {
    const place = byId(id).querySelector(".chart");
    const width = Math.max(240, place.clientWidth);
    const height = root.classList.contains("printing") ? 0.7 * screenHeight : screenHeight; // two plots fit on the first page
    const chart = new uPlot({ width, height, ...options, legend: { markers: { width: 3 }, ...options.legend } }, values, place);
    charts.push({ id, chart, place, height });
    return chart;
  }

  const keysOnly = { live: false };
  const noDrag = { drag: { x: false, y: false }, y: false };
  const withUnit = (text, unit) => (unit ? `${text} [${unit}]` : text);

  const day = "\n{D} {MMM} {YYYY}", hour = "{HH}:{mm}", minute = "\n{D} {MMM} {HH}:{mm}";
  const stamps = [
    [31536000, "{YYYY}", null, null, null, null, null, null, 1],
    [2419200, "{MMM}", "\n{YYYY}", null, null, null, null, null, 1],
    [86400, "{D} {MMM}", "\n{YYYY}", null, null, null, null, null, 1],
    [3600, hour, day, null, "\n{D} {MMM}", null, null, null, 1],
    [60, hour, day, null, "\n{D} {MMM}", null, null, null, 1],
    [1, ":{ss}", minute, null, minute, null, "\n{HH}:{mm}", null, 1],
  ];

  function shade(chart, training) {
    if (!training) return;
    const { left, top, width, height } = chart.bbox;
    const [from, to] = training.map((time) => Math.min(Math.max(chart.valToPos(time, "x", true), left), left + width));
    chart.ctx.fillStyle = colour("panel");
    chart.ctx.fillRect(from, top, to - from, height);
  }

  // y range of the time chart at its zoom: all of the reference, all but the outermost 0.5 % of the other lines.
  function spanWithoutSpikes(chart) {
    const [from, to] = chart.series[0].idxs;
    let low = Infinity, high = -Infinity;
    chart.series.forEach((one, index) => {
      if (index === 0 || !one.show || one.scale !== "y") return;
      const whole = one.label === "reference", every = whole ? 1 : Math.max(1, Math.floor((to - from) / 5000));
      const values = [];
      for (let row = from; row <= to; row += every) if (chart.data[index][row] != null) values.push(chart.data[index][row]);
      if (!values.length) return;
      values.sort((a, b) => a - b);
      const edge = whole ? 0 : Math.floor(0.005 * values.length);
      low = Math.min(low, values[edge]);
      high = Math.max(high, values[values.length - 1 - edge]);
    });
    const margin = 0.05 * (high - low || 1);
    return low > high ? [0, 1] : [low - margin, high + margin];
  }

  function drawTime(view) {
    const { times, raw, reference, calibrated, low, high } = view.time;
    const edge = (label) => line(label, "calibrated", { width: 0 });
    const edges = low ? [edge("low"), edge("high")] : []; // before the line, so that it is drawn on the band
    const apart = !data.comparable;
    const axes = [axis(null, { space: 60, values: stamps, size: 46 }), axis(withUnit(data.target, data.unit))];
    const rawScale = apart ? { scale: "raw" } : {};
    if (apart) axes.push(axis(withUnit(data.raw, data.rawUnit), { scale: "raw", side: 1, grid: { show: false } }));
    draw("time", {
      axes,
      tzDate: (seconds) => uPlot.tzDate(new Date(seconds * 1e3), "Etc/UTC"),
      cursor: { drag: { x: true, y: false } },
      scales: { y: { range: spanWithoutSpikes } },
      hooks: { drawClear: [(chart) => shade(chart, view.training)] },
      series: [
        { label: "UTC", value: (_, value) => moment(value) },
        line(`raw (${data.raw})`, "raw", { width: 1, ...rawScale }),
        line("reference", "reference", { width: 1.5 }),
        ...edges,
        line("calibrated", "calibrated", { width: 1.25 }),
      ],
      bands: low ? [{ series: [4, 3], fill: `${colour("calibrated")}2b` }] : [],
    }, [times, raw, reference, ...(low ? [low, high] : []), calibrated].map(unpack), 380);
  }

  function drawScatter(view) {
    const { reference, calibrated, raw, fit, range } = view.scatter;
    const x = unpack(reference), ours = unpack(calibrated), theirs = raw ? unpack(raw) : null;
    const series = [{ label: "reference" }], values = [x];
    const add = (one, numbers) => { series.push(one); values.push(numbers); };
    if (theirs) add(dots("raw", "raw"), theirs);
    add(dots("calibrated", "calibrated"), ours);
    const ends = (value) => x.map((one, row) => (row === 0 || row === x.length - 1 ? value(one) : null));
    add(line("1:1", "reference", { dash: [5, 5], width: 1, spanGaps: true }), ends((one) => one));
    if (fit) add(line("regression", "second", { width: 2, spanGaps: true }), ends((one) => fit.slope * one + fit.intercept));
    draw("scatter", {
      axes: [level(withUnit("reference", data.unit)), axis(withUnit("reading", data.unit))],
      scales: { x: { time: false, range }, y: { range } },
      cursor: noDrag, legend: keysOnly, series,
    }, values, 380);
  }

  function drawAgreement(view) {
    const x = unpack(view.scatter.reference), y = unpack(view.scatter.calibrated);
    const points = x.map((value, row) => [(value + y[row]) / 2, y[row] - value]).sort((a, b) => a[0] - b[0]);
    const flat = (value) => points.map(() => value);
    const { bias, low, high, range } = view.agreement;
    draw("agreement", {
      axes: [level(withUnit("mean of the two", data.unit)), axis(withUnit("calibrated − reference", data.unit))],
      scales: { x: { time: false }, y: { range } },
      cursor: noDrag, legend: keysOnly,
      series: [
        { label: "mean" }, dots("difference", "calibrated"), line("mean difference", "second", { width: 2 }),
        line("upper 95 % limit", "reference", { dash: [5, 5], width: 1 }), line("lower", "reference", { dash: [5, 5], width: 1 }),
      ],
    }, [points.map((pair) => pair[0]), points.map((pair) => pair[1]), flat(bias), flat(high), flat(low)], 380);
  }

  function drawBins(id, bins, label) {
    const names = Object.keys(bins[0].rmse).reverse();
    const centres = bins.map((bin) => (bin.low + bin.high) / 2);
    draw(id, {
      axes: [level(label), axis(withUnit("RMSE", data.unit))],
      scales: { x: { time: false, range: [bins[0].low, bins[bins.length - 1].high] }, y: { range: (_, low, high) => [0, 1.08 * high || 1] } },
      cursor: noDrag,
      series: [{ label: "bin", value: (_, value, __, row) => (row == null ? "–" : `${short(bins[row].low)} to ${short(bins[row].high)}, ${bins[row].rows.toLocaleString("en")} rows`) },
        ...names.map((name) => marked(name, name, dashed(name)))],
    }, [centres, ...names.map((name) => bins.map((bin) => bin.rmse[name]))], 300);
  }

  function drawChanges({ minutes, rmse }) {
    const names = Object.keys(rmse).reverse();
    draw("changes", {
      axes: [level("minutes from the change"), axis(withUnit("RMSE", data.unit))],
      scales: { x: { time: false }, y: { range: (_, low, high) => [0, 1.08 * high || 1] } },
      cursor: noDrag,
      series: [{ label: "minutes", value: (_, value) => short(value) }, ...names.map((name) => line(name, name, { width: 2, ...dashed(name) }))],
    }, [minutes, ...names.map((name) => rmse[name])], 300);
  }

  const anyError = (bins) => bins?.some((bin) => bin.rmse.calibrated != null);

  const drawers = {
    time: (view) => view.time && drawTime(view),
    scatter: (view) => view.scatter && drawScatter(view),
    agreement: (view) => view.agreement && drawAgreement(view),
    concentration: (view) => anyError(view.concentration) && drawBins("concentration", view.concentration, withUnit("reference", data.unit)),
    humidity: (view) => anyError(view.humidity) && drawBins("humidity", view.humidity, withUnit(data.humidity, "%")),
    changes: (view) => view.changes?.count && drawChanges(view.changes),
  };

  function show(index) {
    shown = index;
    const view = data.views[index];
    charts.forEach(({ chart }) => chart.destroy());
    charts = [];
    for (const [id, drawer] of Object.entries(drawers)) {
      const figure = byId(id);
      figure.querySelector(".chart").hidden = false; // a hidden element has no width to draw in
      drawer(view);
      const drawn = charts.some((one) => one.id === id);
      const caption = view.captions[id] ?? "";
      figure.querySelector("figcaption").textContent = caption;
      figure.querySelector(".chart").setAttribute("aria-label", caption);
      figure.querySelector(".chart").hidden = !drawn;
      const tools = figure.querySelector(".tools");
      if (tools) tools.hidden = !drawn;
    }
  }

  function zoom(kind) {
    const { chart } = charts.find((one) => one.id === "time");
    const all = chart.data[0], first = all[0], last = all[all.length - 1];
    const { min, max } = chart.scales.x, width = max - min;
    const moves = {
      in: [min + width / 4, max - width / 4], out: [min - width / 2, max + width / 2],
      back: [min - width / 2, max - width / 2], on: [min + width / 2, max + width / 2], all: [first, last],
    };
    const [from, to] = moves[kind], span = Math.min(to - from, last - first);
    const start = Math.min(Math.max(from, first), last - span);
    chart.setScale("x", { min: start, max: start + span });
  }

  function fit() {
    charts.forEach(({ chart, place, height }) => {
      const width = Math.max(240, place.clientWidth);
      if (width !== chart.width) chart.setSize({ width, height });
    });
  }

  document.querySelectorAll("[data-zoom]").forEach((button) => button.addEventListener("click", () => zoom(button.dataset.zoom)));
  byId("device")?.addEventListener("change", (event) => show(Number(event.target.value)));
  byId("save").addEventListener("click", () => {
    const link = document.createElement("a");
    link.href = URL.createObjectURL(new Blob([byId("card").textContent], { type: "application/json" }));
    link.download = "scorecard.json";
    link.click();
    URL.revokeObjectURL(link.href);
  });
  new ResizeObserver(fit).observe(document.querySelector("main"));
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => show(shown));
  addEventListener("beforeprint", () => { root.classList.add("printing"); show(shown); });
  addEventListener("afterprint", () => { root.classList.remove("printing"); show(shown); });
  show(data.opening);
})();
